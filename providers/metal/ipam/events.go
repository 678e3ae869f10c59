package ipam

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/ipam/pool"
)

// The reasons of the events on Services. What a Service is refused for, the service controller tells, with its condition.
const (
	// EventAssigned says which address a Service got, and from which pool.
	EventAssigned = "AddressAssigned"
	// EventConflict says that a Service shows an address that an older one keeps.
	EventConflict = "AddressConflict"
	// EventStranded says that a Service keeps an address that it would not get any more.
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

// tellGranted tells a Service what it got.
func (b *Balancer) tellGranted(request pool.Request, done assigned) {
	about := reference(request.Holder)
	var gained []string
	for addr, name := range done.gained {
		gained = append(gained, fmt.Sprintf("%s from pool %s", addr, name))
	}
	if len(gained) > 0 {
		slices.Sort(gained)
		b.options.Recorder.Event(about, corev1.EventTypeNormal, EventAssigned, "Assigned "+strings.Join(gained, " and "))
	}
	for _, note := range done.notes {
		b.options.Recorder.Event(about, corev1.EventTypeWarning, string(note.Reason), note.Message)
	}
}

// warning is an event that a Service shall be told.
type warning struct {
	holder          pool.Holder
	reason, message string
}

// settle draws the consequences of what has changed: it tells Services of conflicts and of addresses that are in no pool any
// more, and has those looked at again that would not be refused any more.
func (b *Balancer) settle() {
	b.mu.Lock()
	if b.ledger == nil {
		b.mu.Unlock()
		return
	}
	warnings := append(b.ledger.conflicts(), b.ledger.stranded()...)
	retry := b.retry
	var served []types.NamespacedName
	if retry != nil {
		served = b.servable()
	}
	b.mu.Unlock()
	for _, one := range warnings {
		b.options.Recorder.Event(reference(one.holder), corev1.EventTypeWarning, one.reason, one.message)
	}
	for _, key := range served {
		retry(key)
	}
}

// servable returns the Services that were refused and would all get their addresses now, the oldest first. Each is imagined to
// have what it would get before the next is looked at, so that one address wakes one Service.
func (b *Balancer) servable() []types.NamespacedName {
	requests := make([]pool.Request, 0, len(b.waiting))
	for _, request := range b.waiting {
		requests = append(requests, request)
	}
	slices.SortFunc(requests, func(a, c pool.Request) int {
		return cmp.Or(a.Created.Compare(c.Created), cmp.Compare(a.UID, c.UID))
	})
	var served []types.NamespacedName
	var imagined []types.UID
	for _, request := range requests {
		granted, err := pool.Allocate(b.ledger.state, request)
		if err != nil {
			continue
		}
		delete(b.waiting, request.UID)
		served = append(served, request.Service)
		imagined = append(imagined, request.UID)
		b.ledger.state.Set(request.Holder, granted.Addresses, request.Held)
	}
	for _, uid := range imagined {
		b.ledger.restore(uid)
	}
	return served
}

// conflicts returns what Services are to be told that claim an address which another one keeps, once.
func (r *ledger) conflicts() []warning {
	var warnings []warning
	for addr := range r.suspects {
		for _, loser := range r.state.Losers(addr) {
			message := fmt.Sprintf("%s is also the address of the Service %s, which is older and keeps it: %s; ask for another address, "+
				"or have both share it", addr, loser.Winner.Service, loser.Obstacle)
			if e, found := r.entries[loser.UID]; found && e.tell(message) {
				warnings = append(warnings, warning{loser.Holder, EventConflict, message})
			}
		}
	}
	clear(r.suspects)
	return warnings
}

// stranded returns what Services are to be told whose address is in no pool any more, once. It is about those that have an
// address from us: others have nothing to do with the pools.
func (r *ledger) stranded() []warning {
	if !r.moved {
		return nil
	}
	r.moved = false
	var warnings []warning
	for _, e := range r.entries {
		if e.grant == nil {
			continue
		}
		for _, addr := range e.grant.addresses {
			note := pool.StrandedNote(addr)
			if r.state.Pools().Of(addr) == "" && e.tell(note.Message) {
				warnings = append(warnings, warning{e.holder, string(note.Reason), note.Message})
			}
		}
	}
	return warnings
}
