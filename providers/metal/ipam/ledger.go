package ipam

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/mooring-ccm/mooring/providers/metal/ipam/pool"
)

// ledger is what is known of all Services: what the API server was seen to hold, and what this process has granted since it
// began to lead. It is not safe for concurrent use.
type ledger struct {
	state   *pool.State
	entries map[types.UID]*entry
	// suspects are the addresses whose claimants have changed since conflicts were last looked for.
	suspects map[netip.Addr]bool
	// moved says that the pools have changed since it was last looked whose addresses that concerns.
	moved bool
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
	// watched says that the watch has shown the Service. It will then tell of its end, too; of others the API server is asked.
	watched bool
	// grant is what this process has granted, nil if it has granted nothing or has taken it back.
	grant *grant
	// released says that the Service has given back what it had.
	released bool
	// told are the warnings that the Service has been told.
	told map[string]bool
}

// grant is what a Service was granted last.
type grant struct {
	addresses  []netip.Addr
	ports      []corev1.ServicePort
	clusterUID types.UID
}

func newLedger(pools *pool.Pools) *ledger {
	return &ledger{state: pool.NewState(pools), entries: map[types.UID]*entry{}, suspects: map[netip.Addr]bool{}}
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

// status returns the status of a Service as the record has it, nil if it has no address.
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

// tell returns those of some warnings that the Service has not been told, and takes them for told.
func (e *entry) tell(warning string) bool {
	if e.told[warning] {
		return false
	}
	if e.told == nil {
		e.told = map[string]bool{}
	}
	e.told[warning] = true
	return true
}

// newer reports whether one resource version is newer than another. One that cannot be compared is not.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// observe takes notice of a Service as the API server holds it, or held it: what is older than what is known already changes
// nothing.
func (r *ledger) observe(service *corev1.Service, watched bool) {
	e, found := r.entries[service.UID]
	if !found {
		e = &entry{}
		r.entries[service.UID] = e
	}
	e.watched = e.watched || watched
	if e.version != "" && !newer(service.ResourceVersion, e.version) {
		return
	}
	e.see(service)
	e.version, e.shown = service.ResourceVersion, shownBy(service)
	r.index(e)
}

// see takes from a Service what is not in its status.
func (e *entry) see(service *corev1.Service) {
	e.holder, e.ports = holderOf(service), service.Spec.Ports
	e.wanted = service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// held returns the addresses that a Service has when somebody comes with a copy of it, which may be newer or older than what is
// known.
func (r *ledger) held(service *corev1.Service) []netip.Addr {
	e, found := r.entries[service.UID]
	switch {
	case found && e.grant != nil:
		return e.grant.addresses
	case !found || newer(service.ResourceVersion, e.version):
		return shownBy(service)
	default:
		return e.shown
	}
}

// unseen reports whether a Service may show addresses of its grant, besides those that it keeps, of which the record does not
// know: it was granted them, and they may have been written since it was last seen.
func (r *ledger) unseen(uid types.UID, kept []netip.Addr) bool {
	e, found := r.entries[uid]
	return found && e.grant != nil && slices.ContainsFunc(e.grant.addresses, func(addr netip.Addr) bool {
		return !slices.Contains(kept, addr) && !slices.Contains(e.shown, addr)
	})
}

// grant gives a Service addresses, instead of those that it had.
func (r *ledger) grant(service *corev1.Service, given grant) *entry {
	e, found := r.entries[service.UID]
	if !found {
		e = &entry{}
		r.entries[service.UID] = e
	}
	if e.version == "" || !newer(e.version, service.ResourceVersion) {
		e.see(service)
	}
	e.grant, e.released = &given, false
	r.index(e)
	return e
}

// release takes back what a Service was granted. What it shows stays taken until it is seen without.
func (r *ledger) release(uid types.UID) {
	if e, found := r.entries[uid]; found {
		e.grant, e.released, e.told = nil, true, nil
		r.index(e)
	}
}

// forget drops a Service that is gone.
func (r *ledger) forget(uid types.UID) {
	if e, found := r.entries[uid]; found {
		r.suspect(e)
		r.state.Remove(uid)
		delete(r.entries, uid)
	}
}

// index tells the state what a Service holds.
func (r *ledger) index(e *entry) {
	r.state.Set(e.holder, e.claimed(), e.shown)
	r.suspect(e)
}

func (r *ledger) suspect(e *entry) {
	for _, addr := range e.claimed() {
		r.suspects[addr] = true
	}
}

// change replaces the pools.
func (r *ledger) change(pools *pool.Pools) { r.state, r.moved = r.state.WithPools(pools), true }

// restore tells the state again what is known of a Service.
func (r *ledger) restore(uid types.UID) {
	if e, found := r.entries[uid]; found {
		r.state.Set(e.holder, e.claimed(), e.shown)
		return
	}
	r.state.Remove(uid)
}

// pooled reports whether a Service has an address of a pool.
func (r *ledger) pooled(e *entry) bool {
	return slices.ContainsFunc(e.claimed(), func(addr netip.Addr) bool { return r.state.Pools().Of(addr) != "" })
}
