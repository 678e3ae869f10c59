package routing

import (
	"net/netip"
	"slices"
	"testing"
)

func TestTableForGroups(t *testing.T) {
	first, second := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.1.0.1")
	by := func(addr netip.Addr) Hops {
		return Hops{NextHops: []netip.Addr{addr}, Attributes: []Attributes{{LocalPreference: 7}}}
	}
	everybody, both, one, none := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32"),
		netip.MustParsePrefix("192.0.2.3/32"), netip.MustParsePrefix("192.0.2.4/32")
	table := Table{
		everybody: {Prefix: everybody, NextHops: []netip.Addr{first}, Pool: "public"},
		both:      {Prefix: both, NextHops: []netip.Addr{first}, Groups: map[string]Hops{"": by(first), "a": by(second)}},
		one:       {Prefix: one, Groups: map[string]Hops{"a": by(second), "b": {}}},
		none:      {Prefix: none, NextHops: []netip.Addr{first}, Groups: map[string]Hops{}},
	}
	for group, want := range map[string]map[netip.Prefix]netip.Addr{
		"": {everybody: first, both: first}, "a": {both: second, one: second}, "b": {}, "c": {},
	} {
		got := table.For(group)
		if len(got) != len(want) {
			t.Errorf("group %q: %v", group, got)
		}
		for prefix, hop := range want {
			if route := got[prefix]; !slices.Equal(route.NextHops, []netip.Addr{hop}) || route.Groups != nil || route.Prefix != prefix ||
				(len(route.Attributes) == 0) != (prefix == everybody) {
				t.Errorf("group %q: %s: %+v", group, prefix, route)
			}
		}
	}
}

func TestRoutesDiffer(t *testing.T) {
	hop := netip.MustParseAddr("10.0.0.1")
	with := func(change func(*Route)) Route {
		route := Route{NextHops: []netip.Addr{hop}, Groups: map[string]Hops{"a": {NextHops: []netip.Addr{hop}}}}
		change(&route)
		return route
	}
	same := with(func(*Route) {})
	if !same.Equal(with(func(*Route) {})) {
		t.Error("a route is not what it is")
	}
	for name, change := range map[string]func(*Route){
		"the group has other attributes": func(r *Route) {
			r.Groups["a"] = Hops{NextHops: []netip.Addr{hop}, Attributes: []Attributes{{Communities: "1:1"}}}
		},
		"the group has no next hop":   func(r *Route) { r.Groups["a"] = Hops{} },
		"another group":               func(r *Route) { r.Groups["b"] = Hops{} },
		"no groups":                   func(r *Route) { r.Groups = nil },
		"attributes":                  func(r *Route) { r.Attributes = []Attributes{{}} },
		"no next hops for the others": func(r *Route) { r.NextHops = nil },
	} {
		if same.Equal(with(change)) {
			t.Errorf("%s, and the routes are equal", name)
		}
	}
	if (Route{}).Equal(Route{Groups: map[string]Hops{}}) {
		t.Error("announced to all, and to no group, is equal")
	}
}
