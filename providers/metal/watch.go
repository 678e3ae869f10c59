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

// changes returns what has to be told of machines after what was told, which it brings up to date. Machines that have gone come
// first: an ID is not used again, but a name may be.
func changes(told map[string]sight, now []sight) []provider.InstanceEvent {
	present := make(map[string]bool, len(now))
	for _, seen := range now {
		present[seen.machine.ProviderID()] = true
	}
	var events []provider.InstanceEvent
	for id := range told {
		if !present[id] {
			delete(told, id)
			gone := provider.InstanceEvent{Kind: provider.InstanceDeleted}
			gone.Instance.ProviderID = id
			events = append(events, gone)
		}
	}
	for _, seen := range now {
		id := seen.machine.ProviderID()
		if before, known := told[id]; !known || !before.same(seen) {
			events = append(events, provider.InstanceEvent{Kind: provider.InstanceSet, Instance: seen.instance()})
		}
		told[id] = seen
	}
	return events
}

// same reports whether both are told alike. A config that was loaded anew has other machines that may be the same.
func (s sight) same(other sight) bool {
	if s.node != other.node || s.state != other.state {
		return false
	}
	return s.machine == other.machine || reflect.DeepEqual(metadataOf(s.machine), metadataOf(other.machine))
}
