package ipam

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

// allocations are what is known of all Services: what the API server was seen to hold, and what this process has granted since it
// began to lead. It is not safe for concurrent use.
type allocations struct {
	state   *pool.State
	entries map[types.UID]*entry
	// unchecked are the addresses whose claimants have changed since conflicts were last looked for.
	unchecked map[netip.Addr]bool
	// poolsChanged says that the pools have changed since the Services that keep an address outside the pools were last looked for.
	poolsChanged bool
}

// entry is what is known of one Service.
type entry struct {
	// holder is the Service as others see it, from the newest object of it, whose resource version is version.
	holder  pool.Holder
	version string
	// shown are the addresses in that object's status, and ports its ports.
	shown []netip.Addr
	ports []corev1.ServicePort
	// wanted says that the Service was of type LoadBalancer.
	wanted bool
	// watched says that the watch has shown the Service and will show its deletion. Others are looked up on the API server.
	watched bool
	// grant is what this process has granted, nil if it has granted nothing or has taken it back.
	grant *grant
	// released says that the Service has given back what it had.
	released bool
	// warned are the warnings that were recorded for the Service.
	warned map[string]bool
	// displaced are the addresses of the grant that a node has by now, and for which the Service was ensured again.
	displaced map[netip.Addr]bool
}

// grant is what a Service was granted last.
type grant struct {
	addresses  []netip.Addr
	ports      []corev1.ServicePort
	clusterUID types.UID
}

func newAllocations(pools *pool.Pools) *allocations {
	return &allocations{state: pool.NewState(pools), entries: map[types.UID]*entry{}, unchecked: map[netip.Addr]bool{}}
}

// claimed returns the addresses that a Service has: what it was granted, or else what it shows. One that is to have none, because
// it has given them back or is of another type, only shows what is left of them.
func (e *entry) claimed() []netip.Addr {
	switch {
	case e.grant != nil:
		return e.grant.addresses
	case e.released || !e.wanted:
		return nil
	default:
		return e.shown
	}
}

// status returns the status of a Service as it is allocated, nil if it has no address.
func (e *entry) status() *corev1.LoadBalancerStatus {
	ports := e.ports
	if e.grant != nil {
		ports = e.grant.ports
	}
	if addresses := e.claimed(); len(addresses) > 0 {
		return statusOf(addresses, ports)
	}
	return nil
}

// warnOnce reports whether a warning is to be recorded: it has not been yet. From now on it has.
func (e *entry) warnOnce(warning string) bool {
	if e.warned[warning] {
		return false
	}
	if e.warned == nil {
		e.warned = map[string]bool{}
	}
	e.warned[warning] = true
	return true
}

// newer reports whether one resource version is newer than another. One that cannot be compared is not.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// observe takes notice of a Service as the API server holds it, or held it: what is older than what is known already changes
// nothing.
func (known *allocations) observe(service *corev1.Service, watched bool) {
	e, found := known.entries[service.UID]
	if !found {
		e = &entry{}
		known.entries[service.UID] = e
	}
	e.watched = e.watched || watched
	if e.version != "" && !newer(service.ResourceVersion, e.version) {
		return
	}
	e.see(service)
	e.version, e.shown = service.ResourceVersion, shownBy(service)
	known.index(e)
}

// see takes from a Service what is not in its status.
func (e *entry) see(service *corev1.Service) {
	e.holder, e.ports = holderOf(service), service.Spec.Ports
	e.wanted = service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// held returns the addresses that a Service has, for a caller with a copy of it, which may be newer or older than what is known.
func (known *allocations) held(service *corev1.Service) []netip.Addr {
	e, found := known.entries[service.UID]
	switch {
	case found && e.grant != nil:
		return e.grant.addresses
	case !found || newer(service.ResourceVersion, e.version):
		return shownBy(service)
	default:
		return e.shown
	}
}

// unseen reports whether a Service may show addresses of its grant, besides the kept ones, that have not been observed. They were granted,
// and may have been written since the Service was last seen.
func (known *allocations) unseen(uid types.UID, kept []netip.Addr) bool {
	e, found := known.entries[uid]
	return found && e.grant != nil && slices.ContainsFunc(e.grant.addresses, func(addr netip.Addr) bool {
		return !slices.Contains(kept, addr) && !slices.Contains(e.shown, addr)
	})
}

// grant gives a Service addresses, instead of its earlier ones.
func (known *allocations) grant(service *corev1.Service, given grant) *entry {
	e, found := known.entries[service.UID]
	if !found {
		e = &entry{}
		known.entries[service.UID] = e
	}
	if e.version == "" || !newer(e.version, service.ResourceVersion) {
		e.see(service)
	}
	e.grant, e.released = &given, false
	known.index(e)
	return e
}

// release takes back what a Service was granted. What it shows stays taken until it is seen without.
func (known *allocations) release(uid types.UID) {
	if e, found := known.entries[uid]; found {
		e.grant, e.released, e.warned = nil, true, nil
		known.index(e)
	}
}

// forget drops a Service that is gone.
func (known *allocations) forget(uid types.UID) {
	if e, found := known.entries[uid]; found {
		known.recheck(e)
		known.state.Remove(uid)
		delete(known.entries, uid)
	}
}

// index updates the state with what a Service holds.
func (known *allocations) index(e *entry) {
	known.state.Set(e.holder, e.claimed(), e.shown)
	known.recheck(e)
}

func (known *allocations) recheck(e *entry) {
	for _, addr := range e.claimed() {
		known.unchecked[addr] = true
	}
}

// change replaces the pools.
func (known *allocations) change(pools *pool.Pools) {
	known.state, known.poolsChanged = known.state.WithPools(pools), true
}

// restore sets the state back to what is known of a Service.
func (known *allocations) restore(uid types.UID) {
	if e, found := known.entries[uid]; found {
		known.state.Set(e.holder, e.claimed(), e.shown)
		return
	}
	known.state.Remove(uid)
}

// pooled reports whether a Service has an address of a pool.
func (known *allocations) pooled(e *entry) bool {
	return slices.ContainsFunc(e.claimed(), func(addr netip.Addr) bool { return known.state.Pools().Of(addr) != "" })
}
