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

// listInstances lists the instances one on a page, sorted by node. A fault of the operation without object comes before the first
// page, one of a node before the page of its instance.
func (c *Cloud) listInstances(ctx context.Context, yield func([]provider.Instance) error) error {
	all, err := serve(ctx, c, "ListInstances", "", nil, func() ([]provider.Instance, error) {
		listed := make([]provider.Instance, 0, len(c.instances))
		for _, name := range slices.Sorted(maps.Keys(c.instances)) {
			listed = append(listed, c.instances[name])
		}
		return listed, nil
	})
	if err != nil {
		return err
	}
	for _, instance := range all {
		page, err := serve(ctx, c, "ListInstances", string(instance.NodeName), instance, func() ([]provider.Instance, error) {
			return []provider.Instance{instance}, nil
		})
		if err != nil {
			return err
		}
		if err := yield(page); err != nil {
			return err
		}
	}
	return nil
}

// watchInstances says all instances, and then each change. Faults come before the first event and before those of a node's
// instance.
func (c *Cloud) watchInstances(ctx context.Context, yield func(provider.InstanceEvent) error) error {
	var seen int
	events, err := serve(ctx, c, "WatchInstances", "", nil, func() ([]provider.InstanceEvent, error) {
		seen = len(c.events)
		var all []provider.InstanceEvent
		for _, name := range slices.Sorted(maps.Keys(c.instances)) {
			all = append(all, provider.InstanceEvent{Kind: provider.InstanceSet, Instance: c.instances[name]})
		}
		return all, nil
	})
	if err != nil {
		return err
	}
	marks := time.NewTicker(markInterval)
	defer marks.Stop()
	for {
		for _, event := range events {
			event, err := serve(ctx, c, "WatchInstances", string(event.Instance.NodeName), event, func() (provider.InstanceEvent, error) {
				return event, nil
			})
			if err != nil {
				return err
			}
			if err := yield(event); err != nil {
				return err
			}
		}
		if err := yield(provider.InstanceEvent{Kind: provider.InstancesCurrent}); err != nil {
			return err
		}
		if events, seen, err = c.await(ctx, seen, marks.C); err != nil {
			return err
		}
	}
}

// await returns what has changed since some events, once something has or the next mark is due.
func (c *Cloud) await(ctx context.Context, seen int, mark <-chan time.Time) ([]provider.InstanceEvent, int, error) {
	c.mu.Lock()
	changed, news := c.changed, len(c.events) > seen
	c.mu.Unlock()
	if !news {
		select {
		case <-changed:
		case <-mark:
		case <-ctx.Done():
			return nil, seen, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events[seen:]), len(c.events), nil
}
