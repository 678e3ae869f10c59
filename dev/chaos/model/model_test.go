package model_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/model"
)

// right is a state in which nothing is wrong.
func right() *model.State {
	s := model.New()
	s.Instances["i-1"] = model.Instance{ID: "i-1", Name: "n-1", MachineType: "small"}
	s.SetNode(1, model.Node{Name: "n-1", UID: "u-1", ProviderID: "sim://i-1", PodCIDR: "10.64.0.0/24", MachineType: "small", Ready: model.Ready})
	s.SetService(1, model.Service{Name: "s-1", UID: "v-1", Balanced: true, Port: 80, Addresses: []string{"198.18.0.1"}})
	s.SetBalancer(time.Minute, model.Balancer{Name: "b-1", ServiceUID: "v-1", Port: 80, Addresses: []string{"198.18.0.1"}, Targets: []string{"i-1"}})
	s.SetBalancer(2, model.Balancer{Name: "foreign-1", Port: 1})
	s.Routes["r-1"] = model.Route{ID: "r-1", CIDR: "10.64.0.0/24", InstanceID: "i-1", Ours: true}
	s.Routes["r-2"] = model.Route{ID: "r-2", CIDR: "10.65.0.0/24", InstanceID: "i-9"}
	s.SetNode(1, model.Node{Name: "foreign-1", UID: "u-9", ProviderID: "another://i-1", Ready: model.Silent})
	return s
}

func TestDifferences(t *testing.T) {
	node := func(change func(*model.Node)) func(*model.State) {
		return func(s *model.State) {
			n := s.Nodes["n-1"]
			change(&n)
			s.SetNode(3, n)
		}
	}
	service := func(change func(*model.Service)) func(*model.State) {
		return func(s *model.State) {
			v := s.Services["s-1"]
			change(&v)
			s.SetService(3, v)
		}
	}
	gone := func(s *model.State) { delete(s.Instances, "i-1") }
	for name, test := range map[string]struct {
		change func(*model.State)
		want   string // the rules that do not hold
	}{
		"nothing":             {func(*model.State) {}, ""},
		"uninitialized":       {node(func(n *model.Node) { n.Uninitialized = true }), "node-initialized targets-exact"},
		"gone, still reports": {gone, ""},
		"gone and silent": {func(s *model.State) {
			gone(s)
			node(func(n *model.Node) { n.Ready = model.Silent })(s)
		}, "node-gone"},
		"needless taint":        {node(func(n *model.Node) { n.Shutdown = true }), "node-shutdown"},
		"another address":       {node(func(n *model.Node) { n.IPs = []string{"10.0.0.1"} }), "node-current"},
		"another type":          {node(func(n *model.Node) { n.MachineType = "large" }), "node-current"},
		"excluded":              {node(func(n *model.Node) { n.Excluded = true }), "targets-exact"},
		"no load balancer":      {func(s *model.State) { s.RemoveBalancer("b-1") }, "balancer-there"},
		"another port":          {service(func(v *model.Service) { v.Port = 81 }), "balancer-current"},
		"no address":            {service(func(v *model.Service) { v.Addresses = nil }), "address-published"},
		"another kind":          {service(func(v *model.Service) { v.Balanced = false }), "service-released balancer-gone"},
		"deleted":               {service(func(v *model.Service) { v.Deleting = true }), "service-released balancer-gone"},
		"Service gone":          {func(s *model.State) { s.RemoveService("s-1") }, "balancer-gone"},
		"no route":              {func(s *model.State) { delete(s.Routes, "r-1") }, "route-there"},
		"node gone, route left": {func(s *model.State) { s.RemoveNode("n-1") }, "targets-exact route-gone"},
	} {
		t.Run(name, func(t *testing.T) {
			s := right()
			test.change(s)
			var rules []string
			for _, d := range s.Differences() {
				rules = append(rules, d.Rule)
			}
			if got := strings.Join(rules, " "); got != test.want {
				t.Errorf("rules %q, want %q: %v", got, test.want, s.Differences())
			}
		})
	}
}

// A target may be removed once its node was none by right, for any time and whatever is seen of it now.
func TestAlwaysTarget(t *testing.T) {
	s := right()
	if !s.AlwaysTarget("b-1", "i-1") {
		t.Error("nothing has happened to the node")
	}
	s.Disturb(2*time.Minute, "u-1")
	if s.AlwaysTarget("b-1", "i-1") {
		t.Error("the node may have been excluded for a moment")
	}
	none := model.Balancer{Name: "b-1", ServiceUID: "v-1"}
	one := model.Balancer{Name: "b-1", ServiceUID: "v-1", Targets: []string{"i-1"}}
	s.SetBalancer(2*time.Minute+1, none)
	s.SetBalancer(2*time.Minute+2, one)
	if s.AlwaysTarget("b-1", "i-1") {
		t.Error("what was planned while the node was none may arrive yet")
	}
	s.SetBalancer(3*time.Minute, none)
	s.SetBalancer(3*time.Minute, one)
	if !s.AlwaysTarget("b-1", "i-1") {
		t.Error("it has become a target again")
	}
	delete(s.Instances, "i-1")
	if s.AlwaysTarget("b-1", "i-1") {
		t.Error("its instance is gone")
	}
}

func TestWithout(t *testing.T) {
	for name, test := range map[string]struct{ a, b, want []string }{
		"nothing":       {},
		"none of them":  {[]string{"a", "b"}, []string{"a", "b"}, nil},
		"all of them":   {[]string{"a", "b"}, nil, []string{"a", "b"}},
		"some of them":  {[]string{"a", "c", "e", "g"}, []string{"b", "c", "d", "g", "h"}, []string{"a", "e"}},
		"more in other": {[]string{"c"}, []string{"a", "b", "c", "d"}, nil},
	} {
		if got := model.Without(test.a, test.b); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
