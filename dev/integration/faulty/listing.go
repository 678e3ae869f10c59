package faulty

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/provider"
)

// markInterval is how often a watch says that it has said everything.
const markInterval = time.Second

// listInstances lists the instances one on a page, sorted by node.
func (m *memory) listInstances(_ context.Context, yield func([]provider.Instance) error) error {
	m.mu.Lock()
	all := m.sorted()
	m.mu.Unlock()
	for _, instance := range all {
		if err := yield([]provider.Instance{instance}); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns the instances sorted by node. The lock is held.
func (m *memory) sorted() (all []provider.Instance) {
	for _, name := range slices.Sorted(maps.Keys(m.instances)) {
		all = append(all, m.instances[name])
	}
	return all
}

// watchInstances says all instances, and then each change.
func (m *memory) watchInstances(ctx context.Context, yield func(provider.InstanceEvent) error) (err error) {
	var events []provider.InstanceEvent
	m.mu.Lock()
	seen := len(m.events)
	for _, instance := range m.sorted() {
		events = append(events, provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instance})
	}
	m.mu.Unlock()
	marks := time.NewTicker(markInterval)
	defer marks.Stop()
	for {
		for _, event := range append(events, provider.InstanceEvent{Kind: provider.InstancesCurrent}) {
			if err := yield(event); err != nil {
				return err
			}
		}
		if events, seen, err = m.await(ctx, seen, marks.C); err != nil {
			return err
		}
	}
}

// await returns what has changed since some events, once something has or the next mark is due.
func (m *memory) await(ctx context.Context, seen int, mark <-chan time.Time) ([]provider.InstanceEvent, int, error) {
	m.mu.Lock()
	changed, news := m.changed, len(m.events) > seen
	m.mu.Unlock()
	if !news {
		select {
		case <-changed:
		case <-mark:
		case <-ctx.Done():
			return nil, seen, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events[seen:]), len(m.events), nil
}
