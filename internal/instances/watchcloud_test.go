package instances_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// watchCloud is a listingCloud that tells of changes at once, and makes a mark each second.
type watchCloud struct {
	*listingCloud

	mu       sync.Mutex
	watches  int
	watchers []*watcher
	refuse   error // what a new watch ends with
	silent   bool  // no marks are made
	mute     bool  // a new watch tells nothing at all
}

type watcher struct {
	events chan provider.InstanceEvent
	broken chan error
}

func newWatchCloud(names ...string) *watchCloud {
	return &watchCloud{listingCloud: newListingCloud(names...)}
}

func (c *watchCloud) Capabilities() provider.Capabilities {
	return provider.Capabilities{ListInstances: c.list, WatchInstances: c.watch, StandbySafe: c.standby}
}

func (c *watchCloud) watch(ctx context.Context, yield func(provider.InstanceEvent) error) error {
	c.mu.Lock()
	c.watches++
	w := &watcher{events: make(chan provider.InstanceEvent, 100), broken: make(chan error, 1)}
	c.watchers = append(c.watchers, w)
	refuse, mute := c.refuse, c.mute
	c.mu.Unlock()
	if mute {
		<-ctx.Done()
		return ctx.Err()
	}
	if refuse != nil {
		return refuse
	}
	for _, instance := range c.all() {
		if err := yield(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instance}); err != nil {
			return err
		}
	}
	for {
		if err := yield(provider.InstanceEvent{Kind: provider.InstancesCurrent}); err != nil {
			return err
		}
		if err := c.second(ctx, w, yield); err != nil {
			return err
		}
	}
}

// second tells of what happens in a second, or for as long as the cloud makes no marks.
func (c *watchCloud) second(ctx context.Context, w *watcher, yield func(provider.InstanceEvent) error) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	for {
		select {
		case event := <-w.events:
			if err := yield(event); err != nil {
				return err
			}
		case err := <-w.broken:
			return err
		case <-timer.C:
			c.mu.Lock()
			silent := c.silent
			c.mu.Unlock()
			if !silent {
				return nil
			}
			timer.Reset(time.Second)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *watchCloud) all() []provider.Instance {
	c.listingCloud.mu.Lock()
	defer c.listingCloud.mu.Unlock()
	var all []provider.Instance
	for _, instance := range c.instances {
		all = append(all, instance)
	}
	return all
}

// happens has the cloud change and tells of it.
func (c *watchCloud) happens(kind provider.InstanceEventKind, name string) {
	instance := instanceFor(name)
	if kind == provider.InstanceDeleted {
		c.remove(instance.ProviderID)
	} else {
		c.add(name)
	}
	c.tell(provider.InstanceEvent{Kind: kind, Instance: instance})
}

func (c *watchCloud) tell(event provider.InstanceEvent) {
	c.set(func(c *watchCloud) {
		for _, w := range c.watchers {
			select {
			case w.events <- event:
			default: // one that is no longer read
			}
		}
	})
	synctest.Wait()
}

func (c *watchCloud) set(change func(c *watchCloud)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// breaks ends the watches there are.
func (c *watchCloud) breaks(err error) {
	c.set(func(c *watchCloud) {
		for _, w := range c.watchers {
			w.broken <- err
		}
		c.watchers = nil
	})
	synctest.Wait()
}

func (c *watchCloud) watched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watches
}

// watching runs a test beside a watch that is current.
func watching(t *testing.T, cloud *watchCloud, test func(t *testing.T, inv *instances.Inventory)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		inv := instances.New(instances.Options{Cloud: cloud})
		var running sync.WaitGroup
		running.Go(func() {
			if err := inv.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		if !cloud.standby {
			inv.LookupEach(ctx, []*corev1.Node{node("first question")}, 0, func(*corev1.Node, instances.Observation, error) {})
		}
		time.Sleep(2 * time.Second)
		test(t, inv)
		stop()
		running.Wait()
	})
}
