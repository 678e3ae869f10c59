package netlab

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Table is what a router has put into its kernel: the next hops of each destination, sorted.
type Table map[netip.Prefix][]netip.Addr

// Equal reports whether both have the same next hops for the same destinations.
func (t Table) Equal(other Table) bool { return maps.EqualFunc(t, other, slices.Equal[[]netip.Addr]) }

// protocols are what the kernel says of whose a route is, by name and by number.
var protocols = []string{"bgp", "186", "bird", "12", "zebra", "11"}

// Table returns the routes in the kernel that the router has learned.
func (r *Router) Table(ctx context.Context) (Table, error) {
	table := Table{}
	for _, family := range []string{"-4", "-6"} {
		shown, err := output(ctx, append(r.Host.Args(), "ip", "-j", family, "route", "show")...)
		if err == nil {
			err = table.Read(shown)
		}
		if err != nil {
			return nil, fmt.Errorf("read the router's table: %w", err)
		}
	}
	return table, nil
}

// Read adds the routes that a router has learned, out of what "ip -j route show" prints.
func (t Table) Read(shown []byte) error {
	type gateway struct {
		Gateway string
		// Via is the gateway of another family (RFC 8950).
		Via struct{ Host string }
	}
	var routes []struct {
		gateway
		Dst, Protocol string
		NextHops      []gateway
	}
	if err := json.Unmarshal(shown, &routes); err != nil {
		return err
	}
	for _, route := range routes {
		if !slices.Contains(protocols, route.Protocol) {
			continue
		}
		to, err := parsePrefix(route.Dst)
		if err != nil {
			return err
		}
		gateways := []gateway{route.gateway}
		if len(route.NextHops) > 0 {
			gateways = route.NextHops
		}
		for _, gateway := range gateways {
			hop, err := netip.ParseAddr(cmp.Or(gateway.Gateway, gateway.Via.Host))
			if err != nil {
				return fmt.Errorf("next hop of %s: %w", to, err)
			}
			t[to] = append(t[to], hop)
		}
		slices.SortFunc(t[to], netip.Addr.Compare)
	}
	return nil
}

// parsePrefix reads a destination; a host has no length.
func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	addr, err := netip.ParseAddr(text)
	return netip.PrefixFrom(addr, addr.BitLen()), err
}
