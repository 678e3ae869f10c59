// Package layer2 answers ARP and neighbor solicitations for addresses of load balancers, for those without a router that speaks BGP.
// It runs on the replica that leads, and only for addresses on networks that this replica is on itself.
//
// The answers name the Ethernet address of a next hop: see segment. plan.go assigns addresses to interfaces and next hops,
// segment.go says what follows from each packet, arp.go and ndp.go are the formats; these do no I/O. station.go runs a segment
// on the sockets of wire.go, and responder.go runs a station for each interface that is needed.
//
// See ADR 78.
package layer2

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// lookAgain is how often the interfaces are looked at, and failed ones opened again.
const lookAgain = 5 * time.Second

// Answer is what is answered for an address.
type Answer struct {
	// Interface is the name of the interface on which it is answered.
	Interface string
	// NextHop is the address of the node that gets the traffic.
	NextHop netip.Addr
	// MAC is the node's Ethernet address; empty as long as the node has not answered yet.
	MAC string
}

// Responder answers for the addresses of the table that it was given last, while it runs. It is safe for concurrent use.
type Responder struct {
	metrics *metrics
	changed chan struct{}

	// networksChanged has room for one.
	networksChanged chan struct{}

	mu       sync.Mutex
	settings *config.L2 // nil: nothing is to be answered
	// networks are those of the last look.
	networks []network
	table    routing.Table
	problems map[netip.Addr]string
	assigned map[netip.Addr]assignment
	stations map[string]*station // nil while it does not run
	// answersOnly is set when this replica leads no more.
	answersOnly bool
}

// New returns a Responder that answers nothing yet, and has looked at the interfaces. Settings are nil where it has nothing to answer.
func New(settings *config.L2, registerer prometheus.Registerer) *Responder {
	var networks []network
	if settings != nil {
		networks, _, _ = devices(settings.Interfaces) // Run looks again
	}
	return &Responder{settings: settings, metrics: newMetrics(registerer), networks: networks, changed: make(chan struct{}, 1),
		networksChanged: make(chan struct{}, 1)}
}

// Networks returns the networks on which to answer, in the order in which plan looks for an address, as they were at the last look.
func (r *Responder) Networks() []netip.Prefix {
	r.mu.Lock()
	defer r.mu.Unlock()
	var networks []netip.Prefix
	for _, network := range r.networks {
		for _, own := range network.addrs {
			if prefix := own.Masked(); !own.IsSingleIP() && !slices.Contains(networks, prefix) {
				networks = append(networks, prefix)
			}
		}
	}
	return networks
}

// NetworksChanged returns a channel that has something to receive after Networks has changed. It is for one receiver.
func (r *Responder) NetworksChanged() <-chan struct{} { return r.networksChanged }

// Announce puts a table in the place of the one before. It never fails: what cannot be answered for is a Problem.
func (r *Responder) Announce(_ context.Context, announced routing.Table) error {
	r.mu.Lock()
	r.table = announced
	r.mu.Unlock()
	r.signal()
	return nil
}

// Reconfigure puts other settings in force. With nil it answers for nothing until it gets others.
func (r *Responder) Reconfigure(settings *config.L2) {
	r.mu.Lock()
	r.settings = settings
	r.mu.Unlock()
	r.signal()
}

// StopRepeating has the Responder send no more gratuitous answers but after changes, while it goes on answering. It is for a replica that
// has lost the lease: another one leads and may know better, and two that repeat what they know would have hosts change between them.
func (r *Responder) StopRepeating() {
	r.mu.Lock()
	r.answersOnly = true
	r.mu.Unlock()
	r.signal()
}

// every returns how often gratuitous answers are repeated; zero for never.
func (r *Responder) every() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answersOnly || r.settings == nil || r.settings.GratuitousInterval == nil {
		return 0
	}
	return r.settings.GratuitousInterval.Duration
}

// Answering reports whether this replica answers for an address, or else why not, as a part of a sentence. The problem is empty if the
// address is not to be answered for, and while the Responder does not run.
func (r *Responder) Answering(addr netip.Addr) (answering bool, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, answering = r.assigned[addr]
	return answering, r.problems[addr]
}

// Answers returns what is answered now.
func (r *Responder) Answers() map[netip.Addr]Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := map[netip.Addr]Answer{}
	links := map[string]map[netip.Addr]mac{}
	for addr, assigned := range r.assigned {
		station := r.stations[assigned.network]
		if station == nil {
			continue
		}
		if links[assigned.network] == nil {
			links[assigned.network] = station.answers()
		}
		answer := Answer{Interface: assigned.network, NextHop: assigned.nextHop}
		if link := links[assigned.network][addr]; link != (mac{}) {
			answer.MAC = link.String()
		}
		result[addr] = answer
	}
	return result
}

// Run answers until ctx ends. On its start it sends gratuitous answers to all hosts of the segments, to correct outdated entries that hosts
// have learned from another replica. It returns when all goroutines have ended.
func (r *Responder) Run(ctx context.Context) {
	r.mu.Lock()
	r.stations = map[string]*station{}
	r.mu.Unlock()
	for ctx.Err() == nil {
		r.look(ctx)
		select {
		case <-ctx.Done():
		case <-r.changed:
		case <-time.After(lookAgain):
		}
	}
	r.mu.Lock()
	stations := slices.Collect(maps.Values(r.stations))
	r.stations, r.problems, r.assigned = nil, nil, nil
	r.mu.Unlock()
	for _, station := range stations {
		station.stop()
		<-station.done
	}
	r.metrics.addresses.Reset()
}

// restrictionOf returns what settings say of pools and interfaces.
func restrictionOf(settings config.L2) restriction {
	only := restriction{pools: settings.Pools}
	for i := range settings.Advertisements {
		only.advertisements = append(only.advertisements, rule{settings.Advertisements[i].Pools, settings.Advertisements[i].Interfaces})
	}
	return only
}

// look plans anew and has it done.
func (r *Responder) look(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx).WithName("l2")
	r.mu.Lock()
	settings, announced := r.settings, r.table
	r.mu.Unlock()
	var networks []network
	var byName map[string]*net.Interface
	if settings == nil {
		settings, announced = &config.L2{}, nil
	} else {
		var err error
		if networks, byName, err = devices(settings.Interfaces); err != nil {
			log.Error(err, "Could not list the interfaces; keeping the current answers")
			return
		}
	}
	r.see(networks)
	assigned, problems := plan(announced, networks, restrictionOf(*settings))
	parts := map[string]map[netip.Addr]netip.Addr{}
	for addr, part := range assigned {
		if parts[part.network] == nil {
			parts[part.network] = map[netip.Addr]netip.Addr{}
		}
		parts[part.network][addr] = part.nextHop
	}
	r.retire(parts)
	for _, network := range networks {
		part := parts[network.name]
		if part == nil {
			continue
		}
		station, err := r.station(ctx, network, byName[network.name])
		if err != nil {
			log.Error(err, "Could not open the interface; trying again", "interface", network.name)
			for addr := range part {
				problems[addr] = err.Error()
				delete(assigned, addr)
			}
			continue
		}
		station.repeat(r.every())
		station.assign(part)
	}
	r.metrics.record(parts)
	r.mu.Lock()
	r.problems, r.assigned = problems, assigned
	r.mu.Unlock()
}

// see remembers the networks, and says so if they have changed.
func (r *Responder) see(networks []network) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.EqualFunc(r.networks, networks, func(a, b network) bool { return a.name == b.name && slices.Equal(a.addrs, b.addrs) }) {
		return
	}
	r.networks = networks
	select {
	case r.networksChanged <- struct{}{}:
	default:
	}
}

// retire ends the stations of interfaces that no address is assigned to.
func (r *Responder) retire(parts map[string]map[netip.Addr]netip.Addr) {
	r.mu.Lock()
	var idle []*station
	for name, station := range r.stations {
		if parts[name] == nil {
			idle = append(idle, station)
			delete(r.stations, name)
		}
	}
	r.mu.Unlock()
	for _, station := range idle {
		station.stop()
		<-station.done
	}
}

// station returns the station of an interface: the one that runs, or a new one if no station runs on the interface as it is now.
func (r *Responder) station(ctx context.Context, network network, device *net.Interface) (*station, error) {
	r.mu.Lock()
	running := r.stations[network.name]
	r.mu.Unlock()
	if running != nil {
		if running.alive(network, device) {
			return running, nil
		}
		running.stop()
		<-running.done
	}
	started, err := newStation(ctx, network, device, r.metrics)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		delete(r.stations, network.name)
		return nil, err
	}
	r.stations[network.name] = started
	return started, nil
}

func (r *Responder) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}
