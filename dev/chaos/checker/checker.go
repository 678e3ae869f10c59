package checker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/model"
)

// Violation is a rule that did not hold.
type Violation struct {
	At     time.Duration `json:"at"`
	Rule   string        `json:"rule"`
	Object string        `json:"object"`
	Detail string        `json:"detail"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s: %s", v.At.Round(time.Millisecond), v.Rule, v.Object, v.Detail)
}

// Options bound what the checker waits for.
type Options struct {
	// Bound is how long an object may be as it should not be while nothing but faults of other objects goes on.
	Bound time.Duration
	// ResumeGrace is how long a replica that was paused may send what it had begun before.
	ResumeGrace time.Duration
}

// Fixture is the writer of everything that users, machines and kubelets do.
const Fixture = "fixture"

// Checker is fed with what happens, and keeps what was wrong. Its methods may be called by several goroutines. Times are since the
// beginning of the run.
type Checker struct {
	options Options

	mu         sync.Mutex
	state      *model.State
	checked    map[string]int
	violations []Violation
	dropped    map[string]bool // UIDs of nodes that the fixture deletes
	// leader is who took the lease last, and resumed is when a replica last went on after a pause.
	leader  string
	resumed map[string]time.Duration
	paused  map[string]bool
	pending map[pending]time.Duration
	faults  faults
}

// pending is a difference, whatever its detail.
type pending struct{ rule, object string }

// New returns a checker that has seen nothing.
func New(o Options) *Checker {
	return &Checker{
		options: o, state: model.New(), checked: map[string]int{}, dropped: map[string]bool{}, resumed: map[string]time.Duration{},
		paused: map[string]bool{}, pending: map[pending]time.Duration{}, faults: newFaults(),
	}
}

// check counts that a rule was held against something, and keeps it if it did not hold. The lock is held.
func (c *Checker) check(at time.Duration, rule, object string, holds bool, detail string, args ...any) {
	c.checked[rule]++
	if !holds {
		c.violations = append(c.violations, Violation{at, rule, object, fmt.Sprintf(detail, args...)})
	}
}

// Fail records a violation that the caller has found.
func (c *Checker) Fail(at time.Duration, rule, object, detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.check(at, rule, object, false, "%s", detail)
}

// Passed counts that a rule held.
func (c *Checker) Passed(rule string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked[rule]++
}

// Disturbs says that the fixture is about to change a node or a Service, by its UID, so managers may know of it before the watch
// that feeds the checker does.
func (c *Checker) Disturbs(at time.Duration, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Disturb(at, uid)
}

// WillDropNode says that the fixture is about to delete a node.
func (c *Checker) WillDropNode(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped[uid] = true
}

// NodeSeen says how a node is.
func (c *Checker) NodeSeen(at time.Duration, node model.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.SetNode(at, node)
}

// NodeDeleted says that a node is no more.
func (c *Checker) NodeDeleted(at time.Duration, node model.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.RemoveNode(node.Name)
	if c.dropped[node.UID] {
		return
	}
	c.check(at, ForeignUntouched, "node "+node.Name, !model.Foreign(node.Name), "it was deleted")
	id, _ := strings.CutPrefix(node.ProviderID, model.ProviderID(""))
	instance, exists := c.state.Instances[id]
	c.check(at, NodeKept, "node "+node.Name, !exists, "it was deleted, its instance %s exists (stopped: %t)", id, instance.Stopped)
}

// ServiceSeen says how a Service is.
func (c *Checker) ServiceSeen(at time.Duration, service model.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.state.Services[service.Name]
	c.state.SetService(at, service)
	if known && old.UID == service.UID && old.Wants() && service.Wants() && len(old.Addresses) > 0 && c.state.AlwaysWanted(service.UID) {
		c.check(at, AddressKept, "service "+service.Name, slices.Equal(old.Addresses, service.Addresses),
			"its addresses were %q and are %q", old.Addresses, service.Addresses)
	}
	if model.Foreign(service.Name) {
		c.check(at, ForeignUntouched, "service "+service.Name, len(service.Addresses) == 0, "its status has %q", service.Addresses)
	}
	if len(service.Addresses) == 0 || known && slices.Equal(old.Addresses, service.Addresses) {
		return
	}
	for _, other := range c.state.Services {
		if other.Name != service.Name && other.Wants() {
			c.check(at, AddressUnique, "service "+service.Name, !intersect(other.Addresses, service.Addresses),
				"it has %q, and service %s has %q", service.Addresses, other.Name, other.Addresses)
		}
	}
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool { return slices.Contains(b, one) })
}

// ServiceDeleted says that a Service is no more.
func (c *Checker) ServiceDeleted(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.RemoveService(name)
}

// InstanceSeen says how an instance is.
func (c *Checker) InstanceSeen(instance model.Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Instances[instance.ID] = instance
}

// InstanceDeleted says that an instance is about to be no more.
func (c *Checker) InstanceDeleted(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.state.Instances, id)
}

// BalancerSeen records the state of a load balancer after by has written it.
func (c *Checker) BalancerSeen(at time.Duration, by string, balancer model.Balancer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.state.Balancers[balancer.Name]
	if by != Fixture {
		c.check(at, ForeignUntouched, "balancer "+balancer.Name, !known || old.ServiceUID != "", "%s wrote it", by)
		for _, id := range model.Without(old.Targets, balancer.Targets) {
			c.check(at, TargetKept, "balancer "+balancer.Name, !c.state.AlwaysTarget(balancer.Name, id), "%s removed its target %s", by, id)
		}
	}
	c.state.SetBalancer(at, balancer)
}

// BalancerDeleted records that by has deleted a load balancer.
func (c *Checker) BalancerDeleted(at time.Duration, by, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Balancers[name]
	c.state.RemoveBalancer(name)
	if by == Fixture {
		return
	}
	c.check(at, ForeignUntouched, "balancer "+name, old.ServiceUID != "", "%s deleted it", by)
	service, exists := c.state.ServiceOf(old)
	kept := exists && service.Wants() && len(service.Addresses) > 0 && c.state.AlwaysWanted(service.UID)
	c.check(at, BalancerKept, "balancer "+name, !kept, "%s deleted it, and service %s wants it", by, service.Name)
}

// RouteSeen records the state of a route after by has written it.
func (c *Checker) RouteSeen(at time.Duration, by string, route model.Route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.state.Routes[route.ID]
	if by != Fixture {
		c.check(at, ForeignUntouched, "route "+route.ID, route.Ours && (!known || old.Ours), "%s wrote it", by)
	}
	c.state.Routes[route.ID] = route
}

// RouteDeleted records that by has deleted a route.
func (c *Checker) RouteDeleted(at time.Duration, by, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by != Fixture {
		c.check(at, ForeignUntouched, "route "+id, c.state.Routes[id].Ours, "%s deleted it", by)
	}
	delete(c.state.Routes, id)
}

// Leads says that the API server has given the lease to a replica.
func (c *Checker) Leads(by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = by
}

// Leader returns the replica that took the lease last, or an empty string if none has.
func (c *Checker) Leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader
}

// Paused and Resumed say that a replica was stopped and went on.
func (c *Checker) Paused(by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused[by] = true
}

// Resumed is the end of Paused.
func (c *Checker) Resumed(at time.Duration, by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused[by] = false
	c.resumed[by] = at
}

// Wrote says that a write of a replica has arrived, at the cloud or at the API server, about a named object.
func (c *Checker) Wrote(at time.Duration, by, what, object string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resumed, once := c.resumed[by]
	grace := c.paused[by] || once && at-resumed < c.options.ResumeGrace
	c.check(at, OneWriter, by, c.leader == by || grace, "it wrote %s of %s, and %q leads", what, object, c.leader)
	c.check(at, ForeignUntouched, object, !model.Foreign(object), "%s wrote %s", by, what)
}

// Look holds the state against the rules about what has to come to be. It returns what is not as it should be.
func (c *Checker) Look(at time.Duration) []model.Difference {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rule := range eventually {
		c.checked[rule.Name]++
	}
	found := c.state.Differences()
	now := map[pending]time.Duration{}
	for _, d := range found {
		key := pending{d.Rule, d.Object}
		since, old := c.pending[key]
		if !old {
			since = at
		}
		now[key] = since
		c.look(at, d, since)
	}
	c.pending = now
	c.faults.recover(at, slices.Collect(maps.Values(now)))
	return found
}

// look holds one difference against the rule about healthy objects. The lock is held.
func (c *Checker) look(at time.Duration, d model.Difference, since time.Duration) {
	began, calm := c.faults.calm(d.Object)
	if !calm {
		return
	}
	age := at - max(since, began)
	c.check(at, Served, d.Object, age < c.options.Bound, "%s, for %s without a fault of its own: %s", d.Rule, age.Round(time.Second), d.Detail)
	if age >= c.options.Bound {
		c.faults.only(d.Object) // once is enough
	}
}

// Unmet says that the end has come with differences.
func (c *Checker) Unmet(at time.Duration, remaining []model.Difference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range remaining {
		c.violations = append(c.violations, Violation{at, d.Rule, d.Object, "in the end: " + d.Detail})
	}
}

// Violated says whether a rule did not hold so far.
func (c *Checker) Violated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.violations) > 0
}

// Result returns what was wrong and how often each rule was held against something.
func (c *Checker) Result() ([]Violation, map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations), maps.Clone(c.checked)
}
