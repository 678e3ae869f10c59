package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Pool is a set of addresses for load balancers.
type Pool struct {
	// Name is unique among the pools: a DNS label, by which Services ask for the pool and metrics name it.
	Name string `json:"name"`
	// Addresses are what the pool holds, of IPv4 and IPv6: prefixes such as 192.0.2.0/24, ranges such as
	// 192.0.2.10-192.0.2.20 with both ends, and single addresses. No address is in two pools, and none belongs to a machine, a BMC or a BGP peer in this file.
	Addresses []string `json:"addresses"`
	// AutoAssign says that Services get addresses of the pool without asking for it. Default true.
	AutoAssign *bool `json:"autoAssign,omitempty"`
	// Disabled says that no Service gets another address of the pool, not even by asking for it. Services keep their addresses.
	// Default false.
	Disabled bool `json:"disabled,omitempty"`
	// AvoidBuggyIPs leaves out the IPv4 addresses that end in .0 and .255, which some old devices take for a network's own.
	AvoidBuggyIPs bool `json:"avoidBuggyIPs,omitempty"`
	// Namespaces are those whose Services may have addresses of the pool. Without Namespaces and NamespaceSelector all may, and with both the namespaces that either one names.
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelector selects such namespaces by their labels.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ServiceSelector selects, by their labels, the Services that may have addresses of the pool. Default: all.
	ServiceSelector *metav1.LabelSelector `json:"serviceSelector,omitempty"`
	// Priority orders the pools that may be used: the highest first, and those of one priority as they are listed. Default 0.
	Priority int `json:"priority,omitempty"`
}

// AddressRange is the addresses from First to Last, both included and of one family.
type AddressRange struct {
	First, Last netip.Addr
}

// String returns the range as a pool lists it.
func (r AddressRange) String() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.First.String() + "-" + r.Last.String()
}

// Ranges returns what the pool's Addresses say, in their order. AvoidBuggyIPs is not regarded.
func (p Pool) Ranges() ([]AddressRange, error) {
	ranges := make([]AddressRange, 0, len(p.Addresses))
	for _, text := range p.Addresses {
		parsed, err := parseRange(text)
		if err != nil {
			return nil, fmt.Errorf("pool %s: addresses %q: %w", p.Name, text, err)
		}
		ranges = append(ranges, parsed)
	}
	return ranges, nil
}

// AutoAssigns reports whether Services get addresses of the pool without asking for it.
func (p Pool) AutoAssigns() bool { return !p.Disabled && (p.AutoAssign == nil || *p.AutoAssign) }

// unusable are prefixes in which no address can be a load balancer's, and why.
var unusable = []struct {
	prefix netip.Prefix
	reason string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network (RFC 1122)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback addresses"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local addresses"},
	{netip.MustParsePrefix("224.0.0.0/3"), "multicast and reserved addresses"},
	{netip.MustParsePrefix("::/127"), "unspecified and loopback addresses"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4 addresses in the notation of IPv6"},
	{netip.MustParsePrefix("fe80::/10"), "link-local addresses"},
	{netip.MustParsePrefix("ff00::/8"), "multicast addresses"},
}

// parseRange reads a prefix, a range or a single address.
func parseRange(text string) (AddressRange, error) {
	var parsed AddressRange
	var err error
	first, last, isRange := strings.Cut(text, "-")
	switch {
	case strings.Contains(text, "/"):
		parsed, err = parsePrefix(text)
	case isRange:
		parsed, err = parseEnds(strings.TrimSpace(first), strings.TrimSpace(last))
	default:
		parsed, err = parseEnds(text, text)
	}
	if err != nil {
		return AddressRange{}, err
	}
	for _, bad := range unusable {
		if all := rangeOf(bad.prefix); overlap(all, parsed) {
			return AddressRange{}, fmt.Errorf("%s holds %s", bad.prefix, bad.reason)
		}
	}
	return parsed, nil
}

func parsePrefix(text string) (AddressRange, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return AddressRange{}, fmt.Errorf("not a prefix such as 192.0.2.0/24: %w", err)
	}
	if prefix != prefix.Masked() {
		return AddressRange{}, fmt.Errorf("the address has bits beyond the prefix length; the prefix is %s", prefix.Masked())
	}
	return rangeOf(prefix), nil
}

func parseEnds(first, last string) (AddressRange, error) {
	from, err := netip.ParseAddr(first)
	if err != nil {
		return AddressRange{}, fmt.Errorf("neither a prefix, a range nor an address: %w", err)
	}
	to, err := netip.ParseAddr(last)
	if err != nil {
		return AddressRange{}, fmt.Errorf("neither a prefix, a range nor an address: %w", err)
	}
	switch {
	case from.Zone() != "" || to.Zone() != "":
		return AddressRange{}, fmt.Errorf("an address with a zone belongs to one machine")
	case from.Is4() != to.Is4():
		return AddressRange{}, fmt.Errorf("the ends of the range are of different families")
	case to.Less(from):
		return AddressRange{}, fmt.Errorf("the range ends before it begins")
	}
	return AddressRange{from, to}, nil
}

// rangeOf returns all addresses of a masked prefix.
func rangeOf(prefix netip.Prefix) AddressRange {
	last := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(last)*8; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	end, _ := netip.AddrFromSlice(last)
	return AddressRange{prefix.Addr(), end}
}

// overlap reports whether an address is in both. Ranges of different families have none in common: netip orders by family first.
func overlap(a, b AddressRange) bool {
	return a.First.Is4() == b.First.Is4() && !a.Last.Less(b.First) && !b.Last.Less(a.First)
}

func setPoolDefaults(pools []Pool) {
	for i := range pools {
		if pools[i].AutoAssign == nil {
			yes := true
			pools[i].AutoAssign = &yes
		}
	}
}

// validatePools returns all that is wrong with the pools, each by itself and among each other.
func validatePools(path *field.Path, pools []Pool) field.ErrorList {
	var wrong field.ErrorList
	seen := map[string]bool{}
	for i := range pools {
		pool, at := &pools[i], path.Index(i)
		wrong = append(wrong, pool.validate(at)...)
		if pool.Name != "" && seen[pool.Name] {
			wrong = append(wrong, field.Duplicate(at.Child("name"), pool.Name))
		}
		seen[pool.Name] = true
	}
	return append(wrong, validateDisjoint(path, pools)...)
}

func (p *Pool) validate(path *field.Path) field.ErrorList {
	var wrong field.ErrorList
	if p.Name == "" {
		wrong = append(wrong, field.Required(path.Child("name"), "Services and metrics name the pool by it"))
	} else {
		for _, message := range validation.IsDNS1123Label(p.Name) {
			wrong = append(wrong, field.Invalid(path.Child("name"), p.Name, message))
		}
	}
	if len(p.Addresses) == 0 {
		wrong = append(wrong, field.Required(path.Child("addresses"), "a pool without addresses serves no Service"))
	}
	for i, text := range p.Addresses {
		if _, err := parseRange(text); err != nil {
			wrong = append(wrong, field.Invalid(path.Child("addresses").Index(i), text, err.Error()))
		}
	}
	for i, namespace := range p.Namespaces {
		for _, message := range validation.IsDNS1123Label(namespace) {
			wrong = append(wrong, field.Invalid(path.Child("namespaces").Index(i), namespace, message))
		}
	}
	strict := metav1validation.LabelSelectorValidationOptions{}
	wrong = append(wrong, metav1validation.ValidateLabelSelector(p.NamespaceSelector, strict, path.Child("namespaceSelector"))...)
	return append(wrong, metav1validation.ValidateLabelSelector(p.ServiceSelector, strict, path.Child("serviceSelector"))...)
}

// validateDisjoint returns an error for each range that overlaps one before it, in the same pool or another, and names both.
func validateDisjoint(path *field.Path, pools []Pool) field.ErrorList {
	type placed struct {
		AddressRange
		pool, index int
	}
	var all []placed
	for i := range pools {
		for j, text := range pools[i].Addresses {
			if parsed, err := parseRange(text); err == nil {
				all = append(all, placed{parsed, i, j})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.First.Compare(b.First) })
	var wrong field.ErrorList
	var reaches placed // the range that reaches furthest among those before
	for i, one := range all {
		if i > 0 && overlap(reaches.AddressRange, one.AddressRange) {
			early, late := reaches, one
			if early.pool > late.pool || (early.pool == late.pool && early.index > late.index) {
				early, late = late, early
			}
			wrong = append(wrong, field.Invalid(path.Index(late.pool).Child("addresses").Index(late.index),
				pools[late.pool].Addresses[late.index], fmt.Sprintf("pool %q overlaps %s of pool %q",
					pools[late.pool].Name, pools[early.pool].Addresses[early.index], pools[early.pool].Name)))
		}
		if i == 0 || reaches.Last.Less(one.Last) {
			reaches = one
		}
	}
	return wrong
}
