package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

// The reasons of the events on Services. The service controller records why a Service is refused, in an event and a condition.
const (
	// EventAssigned says which address a Service got, and from which pool, where nothing announces it.
	EventAssigned = "AddressAssigned"
	// EventConflict says that a Service shows an address that an older one keeps.
	EventConflict = "AddressConflict"
	// EventStranded says that a Service keeps an address that it would not get today.
	EventStranded = string(pool.Stranded)
	// EventDegraded says that a Service that prefers two families got one.
	EventDegraded = string(pool.Degraded)
)

// reference is a Service as far as an event needs it.
func reference(holder pool.Holder) *corev1.Service {
	service := &corev1.Service{}
	service.Namespace, service.Name, service.UID = holder.Service.Namespace, holder.Service.Name, holder.UID
	return service
}

// recordGranted records events about the addresses that a Service got.
func (a *Allocator) recordGranted(request pool.Request, done assigned) {
	about := reference(request.Holder)
	var gained []string
	for addr, name := range done.gained {
		gained = append(gained, fmt.Sprintf("%s from pool %s", addr, name))
	}
	if len(gained) > 0 && (a.sources.Announced == nil || !a.sources.Announced()) {
		slices.Sort(gained)
		a.sources.Recorder.Event(about, corev1.EventTypeNormal, EventAssigned, "Assigned "+strings.Join(gained, " and "))
	}
	for _, note := range done.notes {
		a.sources.Recorder.Event(about, corev1.EventTypeWarning, string(note.Reason), note.Message)
	}
}

// warning is an event that is to be recorded on a Service.
type warning struct {
	holder          pool.Holder
	reason, message string
}

// handleChanges acts on what has changed. It records conflicts, and addresses that are no longer in a pool, as events. It retries Services
// that would no longer be refused.
func (a *Allocator) handleChanges() {
	a.mu.Lock()
	if a.allocations == nil {
		a.mu.Unlock()
		return
	}
	warnings := append(a.allocations.conflicts(), a.allocations.stranded()...)
	retry := a.retry
	var served []types.NamespacedName
	if retry != nil {
		served = append(a.allocations.displaced(), a.servable()...)
	}
	a.mu.Unlock()
	for _, one := range warnings {
		a.sources.Recorder.Event(reference(one.holder), corev1.EventTypeWarning, one.reason, one.message)
	}
	for _, key := range served {
		retry(key)
	}
}

// displaced returns the Services, each once for an address, that were granted an address which a node has by now. They give it up when their
// load balancers are ensured again.
func (known *allocations) displaced() []types.NamespacedName {
	var displaced []types.NamespacedName
	for _, e := range known.entries {
		if e.grant == nil {
			continue
		}
		for _, addr := range e.grant.addresses {
			switch {
			case !known.state.IsReserved(addr):
				delete(e.displaced, addr)
			case !e.displaced[addr]:
				if e.displaced == nil {
					e.displaced = map[netip.Addr]bool{}
				}
				e.displaced[addr] = true
				displaced = append(displaced, e.holder.Service)
			}
		}
	}
	slices.SortFunc(displaced, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(displaced)
}

// servable returns the Services that were refused and would all get their addresses now, the oldest first. Each is assumed to have what it
// would get before the next is looked at: one free address retries one Service.
func (a *Allocator) servable() []types.NamespacedName {
	requests := make([]pool.Request, 0, len(a.waiting))
	for _, request := range a.waiting {
		requests = append(requests, request)
	}
	slices.SortFunc(requests, func(a, c pool.Request) int {
		return cmp.Or(a.Created.Compare(c.Created), cmp.Compare(a.UID, c.UID))
	})
	var served []types.NamespacedName
	var assumed []types.UID
	for _, request := range requests {
		granted, err := pool.Allocate(a.allocations.state, request)
		if err != nil {
			continue
		}
		delete(a.waiting, request.UID)
		served = append(served, request.Service)
		assumed = append(assumed, request.UID)
		a.allocations.state.Set(request.Holder, granted.Addresses, request.Held)
	}
	for _, uid := range assumed {
		a.allocations.restore(uid)
	}
	return served
}

// conflicts returns warnings, each once, for Services that claim an address which another one keeps.
func (known *allocations) conflicts() []warning {
	var warnings []warning
	for addr := range known.unchecked {
		for _, loser := range known.state.Losers(addr) {
			message := fmt.Sprintf("%s is also the address of the Service %s, which is older and keeps it: %s; ask for another address, "+
				"or have both share it", addr, loser.Winner.Service, loser.Obstacle)
			if e, found := known.entries[loser.UID]; found && e.warnOnce(message) {
				warnings = append(warnings, warning{loser.Holder, EventConflict, message})
			}
		}
	}
	clear(known.unchecked)
	return warnings
}

// stranded returns warnings, each once, for Services whose address is no longer in a pool. It is about Services that have an address from
// us: others have nothing to do with the pools.
func (known *allocations) stranded() []warning {
	if !known.poolsChanged {
		return nil
	}
	known.poolsChanged = false
	var warnings []warning
	for _, e := range known.entries {
		if e.grant == nil {
			continue
		}
		for _, addr := range e.grant.addresses {
			note := pool.StrandedNote(addr)
			if known.state.Pools().Of(addr) == "" && e.warnOnce(note.Message) {
				warnings = append(warnings, warning{e.holder, string(note.Reason), note.Message})
			}
		}
	}
	return warnings
}
