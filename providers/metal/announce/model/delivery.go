package model

import (
	"fmt"
	"strings"
)

// NoSession is the reason of an address that has next hops, but that no router was given and nobody answers for on a segment.
const NoSession Reason = "NoSession"

// mostMissing is how many routers a message names.
const mostMissing = 3

// Delivery is who has an address, as far as the leader knows: its own sessions, and not those of other replicas.
type Delivery struct {
	// Routers is how many routers the address is for, and Took how many of them it was announced to.
	Routers, Took int
	// Missing says of each other one why not, as "rack-1 does not answer".
	Missing []string
	// OnSegment says that the address is answered for by ARP or NDP.
	OnSegment bool
}

// nowhere reports whether nobody has the address.
func (d *Delivery) nowhere() bool { return d != nil && d.Took == 0 && !d.OnSegment }

// reason returns why an address is announced or not, with what became of it on the network.
func (a AddressState) reason() Reason {
	if len(a.NextHops) > 0 && a.Delivery.nowhere() {
		return NoSession
	}
	return a.Reason
}

// announced reports whether an address has next hops, and somebody has them.
func (a AddressState) announced() bool { return len(a.NextHops) > 0 && !a.Delivery.nowhere() }

// to says to how many routers an address is announced, as the end of a sentence about it.
func (d *Delivery) to() string {
	switch {
	case d == nil || d.Routers == 0 && d.OnSegment:
		return ""
	case d.Routers == 0:
		return ", to no router: none is configured for its address family"
	}
	text := fmt.Sprintf(", by the leader to %d of %s", d.Took, counted(d.Routers, "router", "routers"))
	if len(d.Missing) == 0 {
		return text
	}
	named := d.Missing[:min(len(d.Missing), mostMissing)]
	text += " (" + strings.Join(named, ", ")
	if more := len(d.Missing) - len(named); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text + ")"
}

// noSession says that nobody has an address that has next hops.
func (a AddressState) noSession(name string) string {
	text := fmt.Sprintf("%s has %s and is announced", name, counted(len(a.NextHops), "next hop", "next hops")) +
		strings.TrimPrefix(a.Delivery.to(), ",")
	if a.Delivery.Routers == 0 {
		return text
	}
	return text + "; what sessions the other replicas have, the leader does not know"
}
