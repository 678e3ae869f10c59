package model

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mooring-ccm/mooring/internal/names"
)

// NoSession is the reason of an address that has next hops, but that no router has and no replica answers for on a segment.
const NoSession Reason = names.ReasonNoSession

// NotAnswered is the reason of an address that has next hops, and that is to be answered for on a segment only, and is not.
const NotAnswered Reason = "NotAnswered"

// mostMissing is how many routers a message names.
const mostMissing = 3

// Delivery is who has an address, as far as the leader knows: its own sessions, and not those of other replicas.
type Delivery struct {
	// Routers is how many routers the address is for with which the leader is to have a session, and Took how many of them it was
	// announced to.
	Routers, Took int
	// TookBy are the names of these.
	TookBy []string
	// Missing says of each other one why not, as "rack-1 does not answer".
	Missing []string
	// Elsewhere is how many more routers the address is for that only other replicas are to have a session with.
	Elsewhere int
	// OnSegment says that the address is answered for by ARP or NDP, and Unanswered why it is not although it is to be.
	OnSegment  bool
	Unanswered string
	// SegmentOnly says that nothing is announced to routers.
	SegmentOnly bool
}

// nowhere reports whether no router and no segment has the address. While other replicas have routers of their own, the leader cannot say
// that.
func (d *Delivery) nowhere() bool {
	return d != nil && d.Took == 0 && d.Elsewhere == 0 && !d.OnSegment
}

// reason returns why an address is announced or not, with what became of it on the network.
func (a AddressState) reason() Reason {
	switch {
	case len(a.NextHops) == 0 || !a.Delivery.nowhere():
		return a.Reason
	case a.Delivery.SegmentOnly:
		return NotAnswered
	default:
		return NoSession
	}
}

// announced reports whether an address has next hops, and a router or a segment has the address.
func (a AddressState) announced() bool { return len(a.NextHops) > 0 && !a.Delivery.nowhere() }

// to says to how many routers an address is announced, as the end of a sentence about it.
func (d *Delivery) to() string {
	switch {
	case d == nil || d.SegmentOnly || d.Routers == 0 && d.Elsewhere == 0 && d.OnSegment:
		return ""
	case d.Routers == 0 && d.Elsewhere > 0:
		return fmt.Sprintf(", by other replicas than the leader to %s: whether they have sessions, the leader does not know",
			counted(d.Elsewhere, "router", "routers"))
	case d.Routers == 0:
		return ", to no router: none is configured for its address family"
	}
	text := fmt.Sprintf(", by the leader to %d of %s", d.Took, counted(d.Routers, "router", "routers"))
	if len(d.Missing) > 0 {
		named := d.Missing[:min(len(d.Missing), mostMissing)]
		text += " (" + strings.Join(named, ", ")
		if more := len(d.Missing) - len(named); more > 0 {
			text += fmt.Sprintf(", and %d more", more)
		}
		text += ")"
	}
	if d.Elsewhere > 0 {
		text += fmt.Sprintf(", and by other replicas to %s more: whether they have sessions, the leader does not know",
			counted(d.Elsewhere, "router", "routers"))
	}
	return text
}

// most are how many next hops and routers the event of an address names.
const most = 8

// Where says for each address that is announced which pool it is of, by which next hops and to which routers: an event has what would make a
// condition change with each node.
func (s ServiceState) Where() string {
	var all []string
	for _, address := range s.Addresses {
		if !address.announced() {
			continue
		}
		hops := make([]string, len(address.NextHops))
		for i, hop := range address.NextHops {
			hops[i] = hop.String()
		}
		text := fmt.Sprintf("%s: pool %s, next hops %s", address.Addr, cmp.Or(address.Pool, "none"), firstOf(hops))
		if address.Delivery != nil && len(address.Delivery.TookBy) > 0 {
			text += ", routers " + firstOf(address.Delivery.TookBy)
		}
		if address.Delivery != nil && address.Delivery.OnSegment {
			text += ", answered for on the segment"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// firstOf lists the first of some names.
func firstOf(names []string) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// noSession says that an address has next hops, and that no router and no segment has the address.
func (a AddressState) noSession(name string) string {
	text := fmt.Sprintf("%s has %s and is announced", name, counted(len(a.NextHops), "next hop", "next hops")) +
		strings.TrimPrefix(a.Delivery.to(), ",")
	if a.Delivery.Routers == 0 {
		return text + a.Delivery.unanswered()
	}
	return text + "; what sessions the other replicas have, the leader does not know" + a.Delivery.unanswered()
}

// unanswered says why an address is not answered for on a segment, as the end of a sentence about it.
func (d *Delivery) unanswered() string {
	if d == nil || d.Unanswered == "" {
		return ""
	}
	return "; " + d.Unanswered
}
