package metal

import (
	"context"
	"reflect"
	"time"

	"github.com/mooring-ccm/mooring/provider"
)

// markInterval is the time between two marks of a watch in which nothing happens.
const markInterval = time.Second

// Watch is provider.WatchInstancesFunc. The inventory and the power states are in this process, so each mark stands behind a look
// at all of them: it proves that nothing was missed.
func (i *Instances) Watch(ctx context.Context, yield func(provider.InstanceEvent) error) error {
	w := &watcher{wake: make(chan struct{}, 1)}
	i.mu.Lock()
	i.watchers[w] = true
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.watchers, w)
	}()
	tick := time.NewTicker(markInterval)
	defer tick.Stop()
	sent := map[string]sight{}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, event := range changes(sent, i.look()) {
			if err := yield(event); err != nil {
				return err
			}
		}
		if err := yield(provider.InstanceEvent{Kind: provider.InstancesCurrent}); err != nil {
			return err
		}
		select {
		case <-w.wake:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// changes returns the events that lead from what was sent to what is now, and brings sent up to date. Both are looked at by the IDs of
// machines. Machines that have gone come first: an ID is not used again, but a name may be.
func changes(sent map[string]sight, now []sight) []provider.InstanceEvent {
	var gone, set []provider.InstanceEvent
	kept := 0
	for _, seen := range now {
		before, known := sent[seen.machine.ID]
		if known {
			kept++
		}
		if !known || !before.same(seen) {
			set = append(set, provider.InstanceEvent{Kind: provider.InstanceSet, Instance: seen.instance()})
		}
	}
	if kept < len(sent) {
		gone = forget(sent, now)
	}
	for _, seen := range now {
		sent[seen.machine.ID] = seen
	}
	return append(gone, set...)
}

// forget removes the machines that no longer exist from what was sent, and returns the events of their deletion.
func forget(sent map[string]sight, now []sight) []provider.InstanceEvent {
	present := make(map[string]bool, len(now))
	for _, seen := range now {
		present[seen.machine.ID] = true
	}
	var gone []provider.InstanceEvent
	for id, seen := range sent {
		if !present[id] {
			event := provider.InstanceEvent{Kind: provider.InstanceDeleted}
			event.Instance.ProviderID = seen.machine.ProviderID()
			gone = append(gone, event)
			delete(sent, id)
		}
	}
	return gone
}

// same reports whether both make the same event. A config that was loaded anew has other machines that may be the same.
func (s sight) same(other sight) bool {
	if s.node != other.node || s.state != other.state {
		return false
	}
	return s.machine == other.machine || reflect.DeepEqual(metadataOf(s.machine), metadataOf(other.machine))
}
