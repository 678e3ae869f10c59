package cloudsim

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// The ranges of load balancer addresses, which are not used on the internet: RFC 2544 for IPv4 and RFC 3849 for IPv6.
var (
	rangeIPv4 = netip.MustParsePrefix("198.18.0.0/15")
	rangeIPv6 = netip.MustParsePrefix("2001:db8:1b::/64")
)

// addressCount is how many addresses of a family there are.
const addressCount = 1<<17 - 2

// allocate returns one address for each family of a load balancer: the requested one, else the one that it has, else the
// next free one after last. It returns an error when a requested address is used or all are.
func allocate(lb api.LoadBalancer, used func(string) bool, last int64) (addresses []string, newLast int64, err error) {
	for _, family := range lb.IPFamilies {
		candidates := slices.Concat(lb.RequestedAddresses, lb.Addresses)
		i := slices.IndexFunc(candidates, func(a string) bool { return familyOf(a) == family })
		if i >= 0 {
			if used(candidates[i]) {
				return nil, 0, fmt.Errorf("address %s belongs to another load balancer", candidates[i])
			}
			addresses = append(addresses, candidates[i])
			continue
		}
		next, at, ok := nextFree(family, used, last)
		if !ok {
			return nil, 0, fmt.Errorf("all %d %s addresses are used", addressCount, family)
		}
		last = at
		addresses = append(addresses, next)
	}
	return addresses, last, nil
}

// nextFree goes round the range, so an address is not given again soon after it became free.
func nextFree(family api.IPFamily, used func(string) bool, last int64) (address string, at int64, ok bool) {
	for step := int64(1); step <= addressCount; step++ {
		at := (last + step) % addressCount
		if address := nth(family, at+1).String(); !used(address) {
			return address, at, true
		}
	}
	return "", 0, false
}

// nth returns the address that is n after the first one of a family's range.
func nth(family api.IPFamily, n int64) netip.Addr {
	if family == api.IPv6 {
		bytes := rangeIPv6.Addr().As16()
		binary.BigEndian.PutUint64(bytes[8:], uint64(n))
		return netip.AddrFrom16(bytes)
	}
	bytes := rangeIPv4.Addr().As4()
	first := binary.BigEndian.Uint32(bytes[:])
	binary.BigEndian.PutUint32(bytes[:], first+uint32(n))
	return netip.AddrFrom4(bytes)
}

// familyOf returns the family of an IP address, or empty for any other text.
func familyOf(text string) api.IPFamily {
	address, err := netip.ParseAddr(text)
	switch {
	case err != nil || address.Zone() != "" || address.Is4In6():
		return ""
	case address.Is4():
		return api.IPv4
	default:
		return api.IPv6
	}
}

// inRange reports whether an IP address is one that a load balancer can have.
func inRange(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && (rangeIPv4.Contains(address) || rangeIPv6.Contains(address))
}
