// Package pool decides which addresses a Service gets. It is pure: it holds what is known of addresses, answers a request, and makes no
// calls.
//
// Pools are what the config says. State is which Services hold which addresses. Allocate looks for the answer to a Request in a State and
// changes nothing. The caller carries the answer out and records it in the State by Set.
//
// The same State gives the same answer to the same Request, whatever the order of the calls of Set: the first pool by priority
// that may be used, and the lowest address in it that is free.
package pool

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Pools are the pools of a config, ready to be asked. They are not changed once they are built.
type Pools struct {
	// ordered are the pools in the order in which they are preferred.
	ordered []*compiled
	byName  map[string]*compiled
	// spans are all ranges of all pools by their first address. None overlap.
	spans []span
}

// compiled is a pool whose selectors are parsed.
type compiled struct {
	config.Pool
	namespaces map[string]bool
	// namespaceLabels and services are nil where the pool selects none.
	namespaceLabels, services labels.Selector
	ranges                    map[corev1.IPFamily][]config.AddressRange
}

// span is a range of a pool.
type span struct {
	config.AddressRange
	pool *compiled
}

// New compiles the pools of a config that is valid. An error says which pool is not.
func New(pools []config.Pool) (*Pools, error) {
	result := &Pools{byName: map[string]*compiled{}}
	for _, pool := range pools {
		one, err := compile(pool)
		if err != nil {
			return nil, err
		}
		result.ordered = append(result.ordered, one)
		result.byName[pool.Name] = one
		for _, ranges := range one.ranges {
			for _, r := range ranges {
				result.spans = append(result.spans, span{r, one})
			}
		}
	}
	slices.SortStableFunc(result.ordered, func(a, b *compiled) int { return cmp.Compare(b.Priority, a.Priority) })
	slices.SortFunc(result.spans, func(a, b span) int { return a.First.Compare(b.First) })
	return result, nil
}

func compile(pool config.Pool) (*compiled, error) {
	result := &compiled{Pool: pool, namespaces: map[string]bool{}, ranges: map[corev1.IPFamily][]config.AddressRange{}}
	ranges, err := pool.Ranges()
	if err != nil {
		return nil, err
	}
	for _, r := range ranges {
		for _, usable := range usableOf(r, pool.AvoidBuggyIPs) {
			result.ranges[FamilyOf(r.First)] = append(result.ranges[FamilyOf(r.First)], usable)
		}
	}
	for _, namespace := range pool.Namespaces {
		result.namespaces[namespace] = true
	}
	for _, selector := range []struct {
		from *metav1.LabelSelector
		to   *labels.Selector
		name string
	}{
		{pool.NamespaceSelector, &result.namespaceLabels, "namespaceSelector"},
		{pool.ServiceSelector, &result.services, "serviceSelector"},
	} {
		if selector.from == nil {
			continue
		}
		if *selector.to, err = metav1.LabelSelectorAsSelector(selector.from); err != nil {
			return nil, fmt.Errorf("pool %s: %s: %w", pool.Name, selector.name, err)
		}
	}
	return result, nil
}

// usableOf cuts what a pool does not hand out from one of its ranges.
func usableOf(r config.AddressRange, avoidBuggy bool) []config.AddressRange {
	if !avoidBuggy || !r.First.Is4() {
		return []config.AddressRange{r}
	}
	var result []config.AddressRange
	for first := r.First; first.IsValid() && !r.Last.Less(first); {
		block := first.As4()
		low, high := block, block
		low[3], high[3] = max(block[3], 1), 254
		last := netip.AddrFrom4(high)
		if r.Last.Less(last) {
			last = r.Last
		}
		if from := netip.AddrFrom4(low); !last.Less(from) {
			result = append(result, config.AddressRange{First: from, Last: last})
		}
		block[3] = 255
		first = netip.AddrFrom4(block).Next()
	}
	return result
}

// Of returns the name of the pool that an address belongs to, or empty if it belongs to no pool.
func (p *Pools) Of(addr netip.Addr) string {
	if found := p.of(addr); found != nil {
		return found.Name
	}
	return ""
}

func (p *Pools) of(addr netip.Addr) *compiled {
	at, _ := slices.BinarySearchFunc(p.spans, addr, func(s span, addr netip.Addr) int {
		if s.First.Compare(addr) <= 0 { // the first one that begins after the address
			return -1
		}
		return 1
	})
	if at == 0 || p.spans[at-1].Last.Less(addr) {
		return nil
	}
	return p.spans[at-1].pool
}

// Overlap returns the name of a pool that has addresses in a masked prefix, empty if none has.
func (p *Pools) Overlap(prefix netip.Prefix) string {
	at, _ := slices.BinarySearchFunc(p.spans, prefix.Addr(), func(s span, addr netip.Addr) int { return s.Last.Compare(addr) })
	if at == len(p.spans) { // the first one that ends at the beginning of the prefix or after it
		return ""
	}
	if first := p.spans[at].First; prefix.Contains(first) || first.Is4() == prefix.Addr().Is4() && first.Compare(prefix.Addr()) <= 0 {
		return p.spans[at].pool.Name
	}
	return ""
}

// SelectsNamespaces reports whether any pool selects namespaces by their labels, which a Request then has to have.
func (p *Pools) SelectsNamespaces() bool {
	return slices.ContainsFunc(p.ordered, func(pool *compiled) bool { return pool.namespaceLabels != nil })
}

// allows reports whether a Service may have addresses of the pool.
func (c *compiled) allows(r Request) bool {
	if c.services != nil && !c.services.Matches(r.Labels) {
		return false
	}
	if len(c.namespaces) == 0 && c.namespaceLabels == nil {
		return true
	}
	return c.namespaces[r.Service.Namespace] || (c.namespaceLabels != nil && c.namespaceLabels.Matches(r.NamespaceLabels))
}

// openTo returns the addresses of pools that any Service of a namespace may have. What labels of the namespace select does not count: they are known
// of a request only.
func (p *Pools) openTo(namespace string, addrs []netip.Addr) (open []netip.Addr) {
	for _, addr := range addrs {
		if pool := p.of(addr); pool != nil && (pool.namespaces[namespace] || len(pool.namespaces) == 0 && pool.namespaceLabels == nil) {
			open = append(open, addr)
		}
	}
	return open
}

// FamilyOf returns the family of an address.
func FamilyOf(addr netip.Addr) corev1.IPFamily {
	if addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}
