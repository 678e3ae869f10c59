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
	told := map[string]sight{}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, event := range changes(told, i.look()) {
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

// changes returns what has to be told of machines after what was told, which it brings up to date. Both are looked at by the IDs of
// machines. Machines that have gone come first: an ID is not used again, but a name may be.
func changes(told map[string]sight, now []sight) []provider.InstanceEvent {
	var gone, set []provider.InstanceEvent
	kept := 0
	for _, seen := range now {
		before, known := told[seen.machine.ID]
		if known {
			kept++
		}
		if !known || !before.same(seen) {
			set = append(set, provider.InstanceEvent{Kind: provider.InstanceSet, Instance: seen.instance()})
		}
	}
	if kept < len(told) {
		gone = forget(told, now)
	}
	for _, seen := range now {
		told[seen.machine.ID] = seen
	}
	return append(gone, set...)
}

// forget removes the machines from what was told that are not there any more, and returns that they have gone.
func forget(told map[string]sight, now []sight) []provider.InstanceEvent {
	present := make(map[string]bool, len(now))
	for _, seen := range now {
		present[seen.machine.ID] = true
	}
	var gone []provider.InstanceEvent
	for id, seen := range told {
		if !present[id] {
			event := provider.InstanceEvent{Kind: provider.InstanceDeleted}
			event.Instance.ProviderID = seen.machine.ProviderID()
			gone = append(gone, event)
			delete(told, id)
		}
	}
	return gone
}

// same reports whether both are told alike. A config that was loaded anew has other machines that may be the same.
func (s sight) same(other sight) bool {
	if s.node != other.node || s.state != other.state {
		return false
	}
	return s.machine == other.machine || reflect.DeepEqual(metadataOf(s.machine), metadataOf(other.machine))
}
