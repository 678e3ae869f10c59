package layer2

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// tableOf returns a table of "address by hop hop".
func tableOf(routes ...string) routing.Table {
	result := routing.Table{}
	for _, text := range routes {
		destination, hops, _ := strings.Cut(text, " by ")
		prefix := netip.PrefixFrom(addr(destination), addr(destination).BitLen())
		route := routing.Route{Prefix: prefix, Kind: routing.ServiceAddress, Pool: "public"}
		for hop := range strings.FieldsSeq(hops) {
			route.NextHops = append(route.NextHops, addr(hop))
		}
		result[prefix] = route
	}
	return result
}

func networkOf(name string, prefixes ...string) network {
	result := network{name: name}
	for _, text := range prefixes {
		result.addrs = append(result.addrs, netip.MustParsePrefix(text))
	}
	return result
}

func TestPlan(t *testing.T) {
	networks := []network{
		networkOf("eth1", "10.1.0.2/24"),
		networkOf("eth0", "10.0.0.2/24", "fd00::2/64", "fe80::2/64"),
		networkOf("tun", "10.2.0.2/32"),
	}
	for name, test := range map[string]struct {
		table         routing.Table
		pools         []string
		want, problem string
	}{
		"on the network":           {tableOf("10.0.0.200 by 10.0.0.11"), nil, "10.0.0.200 on eth0 by 10.0.0.11", ""},
		"IPv6":                     {tableOf("fd00::200 by fd00::11"), nil, "fd00::200 on eth0 by fd00::11", ""},
		"by this machine":          {tableOf("10.1.0.200 by 10.1.0.2"), nil, "10.1.0.200 on eth1 by 10.1.0.2", ""},
		"on no network":            {tableOf("192.0.2.1 by 10.0.0.11"), nil, "", problemNoNetwork},
		"a network of one address": {tableOf("10.2.0.2 by 10.2.0.2"), nil, "", problemOwn},
		"the machine's own":        {tableOf("10.0.0.2 by 10.0.0.11"), nil, "", problemOwn},
		"next hops elsewhere":      {tableOf("10.0.0.200 by 10.1.0.11"), nil, "", problemNoNextHop},
		"the one that is here":     {tableOf("10.0.0.200 by 10.1.0.11 10.0.0.11"), nil, "10.0.0.200 on eth0 by 10.0.0.11", ""},
		"of the pool":              {tableOf("10.0.0.200 by 10.0.0.11"), []string{"public"}, "10.0.0.200 on eth0 by 10.0.0.11", ""},
		"of another pool":          {tableOf("10.0.0.200 by 10.0.0.11"), []string{"other"}, "", ""},
		"pods are not answered for": {routing.Table{netip.MustParsePrefix("10.0.0.128/25"): {Prefix: netip.MustParsePrefix("10.0.0.128/25"),
			NextHops: []netip.Addr{addr("10.0.0.11")}, Kind: routing.PodCIDR}}, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			assigned, problems := plan(test.table, networks, test.pools)
			var got, problem string
			for addr, to := range assigned {
				got = fmt.Sprintf("%s on %s by %s", addr, to.network, to.nextHop)
			}
			for _, said := range problems {
				problem = said
			}
			if got != test.want || problem != test.problem {
				t.Errorf("%q, problem %q; want %q, %q", got, problem, test.want, test.problem)
			}
		})
	}
}

// A kubelet chooses the address of its node, and by that no address of a load balancer: where the names are known they decide.
func TestNoAddressWins(t *testing.T) {
	networks := []network{networkOf("eth0", "10.0.0.250/24")}
	chosen := map[string]bool{}
	for i := 20; i < 190; i++ {
		table := tableOf(fmt.Sprintf("10.0.0.200 by 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.%d", i))
		prefix := netip.MustParsePrefix("10.0.0.200/32")
		route := table[prefix]
		route.Nodes = []string{"a", "b", "c", "evil"}
		table[prefix] = route
		assigned, _ := plan(table, networks, nil)
		hop := assigned[addr("10.0.0.200")].nextHop
		chosen[route.Nodes[slices.Index(route.NextHops, hop)]] = true
	}
	if len(chosen) != 1 {
		t.Errorf("by its address a node changes who is chosen: %v", chosen)
	}
}

func TestPlanSpreadsAndStays(t *testing.T) {
	networks := []network{networkOf("eth0", "10.0.0.2/16")}
	assign := func(hops ...string) map[netip.Addr]assignment {
		var routes []string
		for i := range 200 {
			routes = append(routes, fmt.Sprintf("10.0.1.%d by %s", i, strings.Join(hops, " ")))
		}
		assigned, _ := plan(tableOf(routes...), networks, nil)
		return assigned
	}
	before := assign("10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14")
	load := map[netip.Addr]int{}
	for _, to := range before {
		load[to.nextHop]++
	}
	for hop, n := range load {
		if n < 30 || n > 70 {
			t.Errorf("%s has %d of 200 addresses", hop, n)
		}
	}
	for addr, to := range assign("10.0.0.11", "10.0.0.12", "10.0.0.14") {
		if was := before[addr].nextHop; was != to.nextHop && was.String() != "10.0.0.13" {
			t.Errorf("%s moved from %s to %s", addr, was, to.nextHop)
		}
	}
}
