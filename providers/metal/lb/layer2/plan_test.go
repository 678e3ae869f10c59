package layer2

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// tableOf returns a table of "address by hop".
func tableOf(routes ...string) routing.Table {
	result := routing.Table{}
	for _, text := range routes {
		destination, hop, _ := strings.Cut(text, " by ")
		prefix := netip.PrefixFrom(addr(destination), addr(destination).BitLen())
		result[prefix] = routing.Route{Prefix: prefix, Kind: routing.ServiceAddress, Pool: "public", Segment: addr(hop)}
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
		settings      config.L2
		want, problem string
	}{
		"on the network":           {tableOf("10.0.0.200 by 10.0.0.11"), config.L2{}, "10.0.0.200 on eth0 by 10.0.0.11", ""},
		"IPv6":                     {tableOf("fd00::200 by fd00::11"), config.L2{}, "fd00::200 on eth0 by fd00::11", ""},
		"by this machine":          {tableOf("10.1.0.200 by 10.1.0.2"), config.L2{}, "10.1.0.200 on eth1 by 10.1.0.2", ""},
		"on no network":            {tableOf("192.0.2.1 by 10.0.0.11"), config.L2{}, "", problemNoNetwork},
		"a network of one address": {tableOf("10.2.0.2 by 10.2.0.2"), config.L2{}, "", problemOwn},
		"the machine's own":        {tableOf("10.0.0.2 by 10.0.0.11"), config.L2{}, "", problemOwn},
		"a next hop elsewhere":     {tableOf("10.0.0.200 by 10.1.0.11"), config.L2{}, "", problemNoNextHop},
		"no next hop": {routing.Table{netip.MustParsePrefix("10.0.0.200/32"): {Prefix: netip.MustParsePrefix("10.0.0.200/32"),
			NextHops: []netip.Addr{addr("10.1.0.11")}, Kind: routing.ServiceAddress, Pool: "public"}}, config.L2{}, "", problemNoNextHop},
		"of the pool":     {tableOf("10.0.0.200 by 10.0.0.11"), config.L2{Pools: []string{"public"}}, "10.0.0.200 on eth0 by 10.0.0.11", ""},
		"of another pool": {tableOf("10.0.0.200 by 10.0.0.11"), config.L2{Pools: []string{"other"}}, "", ""},
		"on an interface that is selected": {tableOf("10.0.0.200 by 10.0.0.11"),
			config.L2{Advertisements: []config.L2Advertisement{{Interfaces: []string{"eth1"}}, {Pools: []string{"public"}, Interfaces: []string{"eth0"}}}},
			"10.0.0.200 on eth0 by 10.0.0.11", ""},
		"on another interface than is selected": {tableOf("10.0.0.200 by 10.0.0.11"),
			config.L2{Advertisements: []config.L2Advertisement{{Interfaces: []string{"eth1"}}, {Pools: []string{"other"}}}}, "", problemNoNetwork},
		"of a pool that no advertisement selects": {tableOf("10.0.0.200 by 10.0.0.11"),
			config.L2{Advertisements: []config.L2Advertisement{{Pools: []string{"other"}}}}, "", ""},
		"pods are not answered for": {routing.Table{netip.MustParsePrefix("10.0.0.128/25"): {Prefix: netip.MustParsePrefix("10.0.0.128/25"),
			NextHops: []netip.Addr{addr("10.0.0.11")}, Kind: routing.PodCIDR}}, config.L2{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			assigned, problems := plan(test.table, networks, restrictionOf(test.settings))
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
