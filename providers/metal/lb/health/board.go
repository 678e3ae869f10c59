package health

import (
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

// port is one entry of the board.
type port struct {
	state
	// local says that the port is on the machine of the prober itself: it answers whatever is wrong with the network.
	local bool
}

// board holds the states of all ports together, and knows which of them can bear witness that the prober works. It does no I/O
// and knows no clock.
type board struct {
	limits limits
	ports  map[model.Probe]*port
	// healthy counts the healthy ports of the nodes elsewhere that have such.
	healthy map[string]int
	// remote and local are when the latest probe began that a port elsewhere, and one on this machine, answered.
	remote, local time.Time
	// reached says that the kube-proxy of some node, or at least the kernel of its machine, has answered at its port, and proven
	// that it was kube-proxy. Both are about the port and the kind of probe that the settings name.
	reached, proven bool
}

func newBoard(limits limits) *board {
	return &board{limits: limits, ports: map[model.Probe]*port{}, healthy: map[string]int{}}
}

func (b *board) add(probe model.Probe, local bool) {
	b.ports[probe] = &port{local: local, state: state{node: probe.Port == 0}}
}

// unproven reports whether kube-proxies are probed, and none has ever answered. Then it does not run where it is asked, and a node that
// refuses connections is as good as it can be known to be.
func (b *board) unproven() bool {
	if b.proven {
		return false
	}
	for probe := range b.ports {
		if probe.Port == 0 {
			return true
		}
	}
	return false
}

// unserved reports whether kube-proxies are asked, and none is known to answer.
func (b *board) unserved() bool {
	asked := false
	for probe, port := range b.ports {
		if probe.Port == 0 && (port.health == model.Healthy || port.health == model.HealthLeaving) {
			return false
		}
		asked = asked || probe.Port == 0
	}
	return asked
}

// askElsewhere forgets whether kube-proxy answers where it is asked: it is asked otherwise from now on. Health states stay.
func (b *board) askElsewhere() { b.reached, b.proven = false, false }

func (b *board) remove(probe model.Probe) {
	if port := b.ports[probe]; port != nil {
		b.count(probe, port, -1)
	}
	delete(b.ports, probe)
}

// count takes a port that is healthy, and elsewhere, into the number of its node, or out of it.
func (b *board) count(probe model.Probe, port *port, by int) {
	if port.local || port.health != model.Healthy {
		return
	}
	if b.healthy[probe.Node] += by; b.healthy[probe.Node] == 0 {
		delete(b.healthy, probe.Node)
	}
}

// witness returns when the latest probe began that proves that the prober works, as far as a probe of this port is concerned that
// begins now. The machine's own ports prove it only if there is no healthy node elsewhere that could: or else, of two nodes, the
// one with the prober would never believe that the other is dead.
func (b *board) witness(probe model.Probe) time.Time {
	others := len(b.healthy)
	if b.healthy[probe.Node] > 0 {
		others--
	}
	if others == 0 && b.local.After(b.remote) {
		return b.local
	}
	return b.remote
}

// observe takes the outcome of a probe and reports whether its health has changed.
func (b *board) observe(probe model.Probe, seen outcome) (changed bool) {
	port, found := b.ports[probe]
	if !found {
		return false // taken off while it was probed
	}
	if probe.Port == 0 {
		proves := seen.answer == welcoming || seen.answer == leaving
		changed = proves && !b.proven
		b.reached, b.proven = b.reached || seen.answer != silent, b.proven || proves
	}
	seen.reached = b.reached || probe.Port != 0
	b.count(probe, port, -1)
	changed = port.observe(seen, b.limits) || changed
	b.count(probe, port, +1)
	if seen.answer == silent {
		return changed
	}
	latest := &b.remote
	if port.local {
		latest = &b.local
	}
	if seen.began.After(*latest) {
		*latest = seen.began
	}
	return changed
}

// returns reports whether a port returns, see state.
func (b *board) returns(probe model.Probe) bool {
	port, found := b.ports[probe]
	return found && port.returns()
}

// blind reports whether no port elsewhere has answered since a moment, and one at least has been asked in vain since then: of ports that
// have only just been added, nothing is known. Without ports elsewhere, those of this machine count.
func (b *board) blind(since time.Time) bool {
	elsewhere := false
	for _, port := range b.ports {
		elsewhere = elsewhere || !port.local
	}
	answered := b.local
	if elsewhere {
		answered = b.remote
	}
	if answered.After(since) {
		return false
	}
	for _, port := range b.ports {
		if port.local != elsewhere && !port.silentSince.IsZero() && !port.silentSince.After(since) {
			return true
		}
	}
	return false
}

// decided reports whether the first round over all ports is over.
func (b *board) decided() bool {
	for _, port := range b.ports {
		if !port.decided(b.limits) {
			return false
		}
	}
	return true
}
