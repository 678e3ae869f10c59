package checker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/checker"
	"github.com/mooring-ccm/mooring/dev/chaos/model"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

var (
	node     = model.Node{Name: "n-1", UID: "u-1", ProviderID: "sim://i-1", MachineType: "small", Ready: model.Ready}
	instance = model.Instance{ID: "i-1", Name: "n-1", MachineType: "small"}
	served   = model.Service{Name: "s-1", UID: "v-1", Balanced: true, Addresses: []string{"198.18.0.1"}}
	balancer = model.Balancer{Name: "b-1", ServiceUID: "v-1", Addresses: []string{"198.18.0.1"}, Targets: []string{"i-1"}}
)

// begun returns a checker of a system in which all is well, with replica a as the leader.
func begun() *checker.Checker {
	c := checker.New(checker.Options{Bound: time.Minute, ResumeGrace: time.Second})
	c.Leads("a")
	c.InstanceSeen(instance)
	c.NodeSeen(1, node)
	c.ServiceSeen(1, served)
	c.BalancerSeen(time.Minute, "a", balancer)
	c.BalancerSeen(2, checker.Fixture, model.Balancer{Name: "foreign-1"})
	c.RouteSeen(2, checker.Fixture, model.Route{ID: "r-9", CIDR: "10.65.0.0/24"})
	return c
}

// without returns the load balancer without its targets.
func without(b model.Balancer) model.Balancer {
	b.Targets = nil
	return b
}

func TestAlways(t *testing.T) {
	changed := func(change func(*model.Service)) model.Service {
		s := served
		change(&s)
		return s
	}
	for name, test := range map[string]struct {
		happens func(*checker.Checker)
		want    string // the rule that does not hold; empty for none
	}{
		"all is well":                 {func(*checker.Checker) {}, ""},
		"node deleted":                {func(c *checker.Checker) { c.NodeDeleted(3, node) }, checker.NodeKept},
		"node deleted by the fixture": {func(c *checker.Checker) { c.WillDropNode("u-1"); c.NodeDeleted(3, node) }, ""},
		"node deleted, instance gone": {func(c *checker.Checker) { c.InstanceDeleted("i-1"); c.NodeDeleted(3, node) }, ""},
		"foreign node deleted":        {func(c *checker.Checker) { c.NodeDeleted(3, model.Node{Name: "foreign-1", ProviderID: "another://i-1"}) }, checker.ForeignUntouched},
		"address lost":                {func(c *checker.Checker) { c.ServiceSeen(3, changed(func(s *model.Service) { s.Addresses = nil })) }, checker.AddressKept},
		"address changed": {func(c *checker.Checker) {
			c.ServiceSeen(3, changed(func(s *model.Service) { s.Addresses = []string{"198.18.0.2"} }))
		}, checker.AddressKept},
		"address lost, not wanted": {func(c *checker.Checker) {
			c.ServiceSeen(3, changed(func(s *model.Service) { s.Balanced, s.Addresses = false, nil }))
		}, ""},
		"address twice": {func(c *checker.Checker) {
			c.ServiceSeen(3, changed(func(s *model.Service) { s.Name, s.UID = "s-2", "v-2" }))
		}, checker.AddressUnique},
		"load balancer deleted":                {func(c *checker.Checker) { c.BalancerDeleted(3, "a", "b-1") }, checker.BalancerKept},
		"load balancer deleted by the fixture": {func(c *checker.Checker) { c.BalancerDeleted(3, checker.Fixture, "b-1") }, ""},
		"load balancer deleted after all": {func(c *checker.Checker) {
			c.ServiceSeen(3, changed(func(s *model.Service) { s.Deleting = true }))
			c.BalancerDeleted(4, "a", "b-1")
		}, ""},
		"target removed":                {func(c *checker.Checker) { c.BalancerSeen(3, "a", without(balancer)) }, checker.TargetKept},
		"target removed by the fixture": {func(c *checker.Checker) { c.BalancerSeen(3, checker.Fixture, without(balancer)) }, ""},
		"target removed after a change": {func(c *checker.Checker) {
			c.Disturbs(2*time.Minute, "u-1")
			c.BalancerSeen(2*time.Minute+1, "a", without(balancer))
		}, ""},
		"foreign load balancer written": {func(c *checker.Checker) { c.BalancerSeen(3, "a", model.Balancer{Name: "foreign-1"}) }, checker.ForeignUntouched},
		"foreign load balancer deleted": {func(c *checker.Checker) { c.BalancerDeleted(3, "a", "foreign-1") }, checker.ForeignUntouched},
		"foreign route written":         {func(c *checker.Checker) { c.RouteSeen(3, "a", model.Route{ID: "r-9", Ours: true}) }, checker.ForeignUntouched},
		"foreign route deleted":         {func(c *checker.Checker) { c.RouteDeleted(3, "a", "r-9") }, checker.ForeignUntouched},
		"foreign node written":          {func(c *checker.Checker) { c.Wrote(3, "a", "patch-nodes", "foreign-1") }, checker.ForeignUntouched},
		"foreign Service with an address": {func(c *checker.Checker) {
			c.ServiceSeen(3, model.Service{Name: "foreign-1", UID: "v-9", Addresses: []string{"198.18.0.9"}})
		}, checker.ForeignUntouched},
		"the leader writes":           {func(c *checker.Checker) { c.Wrote(3, "a", "patch-nodes", "n-1") }, ""},
		"another one writes":          {func(c *checker.Checker) { c.Wrote(3, "b", "patch-nodes", "n-1") }, checker.OneWriter},
		"the old leader writes":       {func(c *checker.Checker) { c.Leads("b"); c.Wrote(3, "a", "patch-nodes", "n-1") }, checker.OneWriter},
		"it writes after its release": {func(c *checker.Checker) { c.Leads(""); c.Wrote(3, "a", "patch-nodes", "n-1") }, checker.OneWriter},
		"what it had begun arrives": {func(c *checker.Checker) {
			c.Paused("a")
			c.Leads("b")
			c.Resumed(time.Minute, "a")
			c.Wrote(time.Minute+time.Second/2, "a", "patch-nodes", "n-1")
		}, ""},
		"it goes on after a pause": {func(c *checker.Checker) {
			c.Paused("a")
			c.Leads("b")
			c.Resumed(time.Minute, "a")
			c.Wrote(time.Minute+2*time.Second, "a", "patch-nodes", "n-1")
		}, checker.OneWriter},
	} {
		t.Run(name, func(t *testing.T) {
			c := begun()
			test.happens(c)
			violations, _ := c.Result()
			var rules []string
			for _, v := range violations {
				rules = append(rules, v.Rule)
			}
			if got := strings.Join(rules, " "); got != test.want {
				t.Errorf("rules %q, want %q: %v", got, test.want, violations)
			}
		})
	}
}

// An object has to be served while faults concern others, and need not be while a fault concerns it or everything.
func TestServed(t *testing.T) {
	fault := schedule.Operation{Verb: schedule.CloudHang}
	for name, test := range map[string]struct {
		object string
		wrong  bool
	}{"of another object": {"service s-2", true}, "of this object": {"node n-1", false}, "of everything": {"", false}} {
		t.Run(name, func(t *testing.T) {
			c := begun()
			c.Converged(2)
			ends := c.FaultBegins(fault, test.object)
			waiting := node
			waiting.Shutdown = true
			c.NodeSeen(3, waiting)
			for at := range 5 {
				c.Look(time.Duration(at) * 30 * time.Second)
			}
			if violations, _ := c.Result(); (len(violations) == 1) != test.wrong {
				t.Errorf("violations: %v", violations)
			}
			ends(3 * time.Minute)
			c.Look(3*time.Minute + time.Second)
			if got := c.Recoveries(); len(got) != 0 {
				t.Errorf("it has recovered although the node is as it was: %v", got)
			}
			c.NodeSeen(4*time.Minute, node)
			c.Look(4 * time.Minute)
			if got := c.Recoveries(); len(got) != 1 || got[0].Took != time.Minute {
				t.Errorf("recoveries: %v", got)
			}
		})
	}
}
