package cloud

import (
	"fmt"
	"sync"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/guard"
)

// accessor is a method of the plugin that returns one of its interfaces, as InstancesV2 does. Plugins build clients in it and take locks,
// so it can panic and hang as any other call can. It is called within the attempts that use the interface.
type accessor[T any] struct {
	name   string
	method func() (T, bool)
	// keep says that the plugin is called until it returns the interface, and not for each attempt.
	keep    bool
	metrics *metrics

	mu      sync.Mutex
	known   bool // the plugin has returned whether it offers the interface
	offered bool // it has returned the interface once
	kept    *T
	asking  *asking // nil: the plugin is not asked outside of an attempt
}

// asking is a call outside of an attempt, to see whether there is something to call.
type asking struct {
	began time.Time
	done  chan struct{}
}

// accessors are those of a plugin.
type accessors struct {
	instances   *accessor[cloudprovider.Instances]
	instancesV2 *accessor[cloudprovider.InstancesV2]
	zones       *accessor[cloudprovider.Zones]
	balancer    *accessor[cloudprovider.LoadBalancer]
	routes      *accessor[cloudprovider.Routes]
}

// accessorsOf returns the accessors of a plugin. The reference too asks for load balancers and routes once, and for the others each time.
func accessorsOf(plugin cloudprovider.Interface, c *client) accessors {
	return accessors{
		instances:   newAccessor(c, "Instances", plugin.Instances, false),
		instancesV2: newAccessor(c, "InstancesV2", plugin.InstancesV2, false),
		zones:       newAccessor(c, "Zones", plugin.Zones, false),
		balancer:    newAccessor(c, "LoadBalancer", plugin.LoadBalancer, true),
		routes:      newAccessor(c, "Routes", plugin.Routes, true),
	}
}

func newAccessor[T any](c *client, name string, method func() (T, bool), keep bool) *accessor[T] {
	return &accessor[T]{name: name, method: method, keep: keep, metrics: c.metrics}
}

// offers reports whether the plugin offers the interface. Once it has, it does: a plugin that then returns none fails those calls. A plugin
// that panics, or whose call would be outstanding, is taken to offer it, so the calls say what is wrong. One that has said
// before that it does not is waited for no longer than the grace.
func (a *accessor[T]) offers() bool {
	a.mu.Lock()
	if a.offered {
		a.mu.Unlock()
		return true
	}
	if a.asking == nil {
		a.asking = &asking{began: time.Now(), done: make(chan struct{})}
		go a.ask(a.asking)
	}
	asking, wait := a.asking, guard.Long
	if a.known {
		wait = guard.Grace
	}
	a.mu.Unlock()
	timer := time.NewTimer(time.Until(asking.began.Add(wait)))
	defer timer.Stop()
	select {
	case <-asking.done:
	case <-timer.C:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.offered || !a.known
}

// ask calls the plugin once. There is one such call at a time, and none beside one that hangs.
func (a *accessor[T]) ask(asking *asking) {
	failed := true
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if failed {
			a.known = false
			a.metrics.panics.WithLabelValues(a.name).Inc()
		}
		a.asking = nil
		close(asking.done)
	}()
	err := guard.Protect(a.name, func() error { _, _ = a.get(); return nil }, nil)
	failed = err != nil
}

// get returns the plugin's interface. Attempts call it, which recover from panics and have a deadline.
func (a *accessor[T]) get() (T, error) {
	a.mu.Lock()
	kept := a.kept
	a.mu.Unlock()
	if kept != nil {
		return *kept, nil
	}
	value, offered := a.method()
	offered = offered && any(value) != nil
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.offered = true, a.offered || offered
	if !offered {
		var none T
		return none, fmt.Errorf("the cloud provider does not offer %s at the moment", a.name)
	}
	if a.keep {
		a.kept = &value
	}
	return value, nil
}
