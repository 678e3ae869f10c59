package runner

import (
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// fault is an operation of the schedule that makes calls misbehave, while it goes on.
type fault struct {
	schedule.Operation
	over chan struct{} // closed when it ends

	// quota admits calls under CloudQuota.
	quota *rate.Limiter

	mu    sync.Mutex
	stale map[string][]byte // by replica and call, what a list was like at first
}

// first returns what a list was like when it was asked for first.
func (f *fault) first(key string, now []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale[key] == nil {
		f.stale[key] = now
	}
	return f.stale[key]
}

// faults are those that go on.
type faults struct {
	mu     sync.Mutex
	active map[*fault]bool
	// balancers are names of Services by those of their load balancers.
	balancers map[string]string
	// quirksFile is where the plugins of the managers read their quirks.
	quirksFile string
	hit        atomic.Int64
}

func newFaults(quirksFile string) *faults {
	return &faults{active: map[*fault]bool{}, balancers: map[string]string{}, quirksFile: quirksFile}
}

// publish has the plugins of all managers have the quirks that go on.
func (f *faults) publish() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var quirks []string
	for one := range f.active {
		quirks = append(quirks, one.Verb) // what is no quirk of a plugin means nothing to it
	}
	return misbehavior.WriteQuirks(f.quirksFile, quirks)
}

// begin makes calls misbehave until the returned function is called.
func (f *faults) begin(o schedule.Operation) (end func()) {
	perSecond := o.Number(schedule.ArgCount)
	one := &fault{
		Operation: o, over: make(chan struct{}), stale: map[string][]byte{}, quota: rate.NewLimiter(rate.Limit(perSecond), perSecond),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active[one] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.active, one)
		close(one.over)
	}
}

// named notes which Service has a load balancer of that name.
func (f *faults) named(balancer, service string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.balancers[balancer] = service
}

// of returns a fault that hits a call of the cloud, or nil if no fault does.
func (f *faults) of(c call) *fault {
	return f.find(func(one *fault) bool {
		operation, object := one.Args[schedule.ArgOperation], one.Args[schedule.ArgObject]
		if operation == "" || operation != string(c.operation) && operation != string(api.AnyOperation) {
			return false
		}
		if object != "" && f.balancers[c.object] != object {
			return false
		}
		if one.Verb == schedule.CloudHalf && !c.writes() {
			return false
		}
		return !liesInLists(one.Verb) || c.operation.IsList()
	})
}

// ofAPI returns a fault that hits a write to the API server, or nil if no fault does.
func (f *faults) ofAPI() *fault {
	return f.find(func(one *fault) bool { return one.Verb == schedule.APIStatus })
}

func (f *faults) find(hits func(*fault) bool) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for one := range f.active {
		if hits(one) {
			f.hit.Add(1)
			return one
		}
	}
	return nil
}

func liesInLists(verb string) bool {
	switch verb {
	case schedule.CloudEmpty, schedule.CloudPartial, schedule.CloudStale, schedule.CloudDuplicate:
		return true
	default:
		return false
	}
}

// serviceOf returns the Service of a load balancer, or empty if it has no Service.
func (f *faults) serviceOf(balancer string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.balancers[balancer]
}
