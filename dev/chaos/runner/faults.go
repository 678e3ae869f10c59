package runner

import (
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// disturbance is an operation of the schedule that makes calls misbehave until it ends.
type disturbance struct {
	schedule.Operation
	over chan struct{} // closed when it ends

	// quota admits calls under CloudQuota.
	quota *rate.Limiter

	mu    sync.Mutex
	stale map[string][]byte // by replica and call, what a list was like at first
}

// first returns what a list was like when it was asked for first.
func (f *disturbance) first(key string, now []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale[key] == nil {
		f.stale[key] = now
	}
	return f.stale[key]
}

// target is what a fault may hit: a call of the cloud, or a write to the API server.
type target struct {
	call
	api bool
}

// faults are the active faults.
type faults struct {
	rules *fault.Rules[target, *disturbance]

	mu sync.Mutex
	// balancers maps the name of a load balancer to the name of its Service.
	balancers map[string]string
	// quirksFile is where the plugins of the managers read their quirks.
	quirksFile string
	hit        atomic.Int64
}

func newFaults(quirksFile string) *faults {
	return &faults{rules: fault.NewRules[target, *disturbance](), balancers: map[string]string{}, quirksFile: quirksFile}
}

// publish has the plugins of all managers have the quirks that go on.
func (f *faults) publish() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var quirks []string
	for _, rule := range f.rules.List() {
		quirks = append(quirks, rule.Effect.Verb) // what is no quirk of a plugin means nothing to it
	}
	return misbehavior.WriteQuirks(f.quirksFile, quirks)
}

// begin makes calls misbehave until the returned function is called.
func (f *faults) begin(o schedule.Operation) (end func()) {
	perSecond := o.Number(schedule.ArgCount)
	one := &disturbance{
		Operation: o, over: make(chan struct{}), stale: map[string][]byte{}, quota: rate.NewLimiter(rate.Limit(perSecond), perSecond),
	}
	remove := f.rules.Add(fault.Rule[target, *disturbance]{Matches: func(what target) bool { return f.hits(one, what) }, Effect: one})
	return func() {
		remove()
		close(one.over)
	}
}

// named notes which Service has a load balancer of that name.
func (f *faults) named(balancer, service string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.balancers[balancer] = service
}

// hits says whether a fault is about a call of the cloud or a write to the API server.
func (f *faults) hits(one *disturbance, what target) bool {
	operation, object := one.Args[schedule.ArgOperation], one.Args[schedule.ArgObject]
	switch {
	case what.api:
		return one.Verb == schedule.APIStatus
	case operation == "" || operation != string(what.operation) && operation != string(api.AnyOperation):
		return false
	case object != "" && f.serviceOf(what.object) != object:
		return false
	case one.Verb == schedule.CloudHalf && !what.writes():
		return false
	default:
		return !liesInLists(one.Verb) || what.operation.IsList()
	}
}

// of returns the oldest fault that hits a call of the cloud, or nil if no fault does.
func (f *faults) of(c call) *disturbance { return f.take(target{call: c}) }

// ofAPI returns the oldest fault that hits a write to the API server, or nil if no fault does.
func (f *faults) ofAPI() *disturbance { return f.take(target{api: true}) }

func (f *faults) take(what target) *disturbance {
	hit, _ := f.rules.Take(what)
	if hit == nil {
		return nil
	}
	f.hit.Add(1)
	return *hit
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
