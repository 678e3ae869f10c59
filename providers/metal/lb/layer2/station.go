package layer2

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// tick is how often a station looks at what is due.
const tick = 50 * time.Millisecond

// station runs a segment on its wire.
type station struct {
	network  network
	device   *net.Interface
	wire     *wire
	metrics  *metrics
	assigned chan map[netip.Addr]netip.Addr // has room for one
	stop     context.CancelFunc
	// done is closed when all goroutines have ended.
	done chan struct{}

	mu      sync.Mutex
	segment *segment
	failing bool // frames could not be sent
}

// newStation opens an interface and runs until ctx ends, stop is called or the interface fails.
func newStation(ctx context.Context, network network, device *net.Interface, metrics *metrics) (*station, error) {
	wire, err := open(device, network.source6().IsValid())
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &station{
		network: network, device: device, wire: wire, metrics: metrics, stop: stop,
		assigned: make(chan map[netip.Addr]netip.Addr, 1), done: make(chan struct{}),
		segment: newSegment(network, mac(device.HardwareAddr)),
	}
	go s.run(ctx)
	return s, nil
}

// assign gives the station other addresses.
func (s *station) assign(next map[netip.Addr]netip.Addr) {
	select {
	case <-s.assigned:
	default:
	}
	s.assigned <- next
}

// repeat says how often gratuitous answers are sent without a change; zero for never.
func (s *station) repeat(every time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segment.repeat(every, time.Now())
}

// alive reports whether the station runs, on what the interface is now.
func (s *station) alive(network network, device *net.Interface) bool {
	select {
	case <-s.done:
		return false
	default:
	}
	return s.device.Index == device.Index && slices.Equal(s.device.HardwareAddr, device.HardwareAddr) &&
		slices.Equal(s.network.addrs, network.addrs)
}

// answers returns the Ethernet address that is answered for each address; zero for one whose next hop has not answered yet.
func (s *station) answers() map[netip.Addr]mac {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := map[netip.Addr]mac{}
	for addr, held := range s.segment.held {
		result[addr] = held.link
	}
	return result
}

func (s *station) run(ctx context.Context) {
	defer close(s.done)
	log := logr.FromContextOrDiscard(ctx).WithName("l2").WithValues("interface", s.device.Name)
	var readers sync.WaitGroup
	readers.Go(func() { s.listen(ctx, log, "ARP", s.readARP) })
	if s.wire.ndp != nil {
		readers.Go(func() { s.listen(ctx, log, "NDP", s.readNDP) })
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case next := <-s.assigned:
			if err := s.wire.join(slices.Collect(maps.Keys(next))); err != nil {
				log.Error(err, "Some neighbor solicitations will not be received")
			}
			s.with(log, func(segment *segment) []frame { return segment.assign(next, time.Now()) })
		case <-ticker.C:
			s.with(log, func(segment *segment) []frame { return segment.tick(time.Now()) })
		}
	}
	if err := s.wire.close(); err != nil {
		log.V(1).Info("Closing failed", "error", err.Error())
	}
	readers.Wait()
}

// listen reads until the wire is closed. When reading fails before, the station ends, to be started anew.
func (s *station) listen(ctx context.Context, log logr.Logger, what string, read func(logr.Logger) error) {
	if err := read(log); err != nil && ctx.Err() == nil {
		log.Error(fmt.Errorf("listening for %s: %w", what, err), "The interface failed")
	}
	s.stop()
}

func (s *station) readARP(log logr.Logger) error {
	return read(s.wire.arp, func(data []byte, _ mac) {
		if packet, err := parseARP(data); err == nil {
			s.with(log, func(segment *segment) []frame { return segment.hearARP(packet, time.Now()) })
		}
	})
}

func (s *station) readNDP(log logr.Logger) error {
	return read(s.wire.ndp, func(data []byte, from mac) {
		if message, err := parseNDP(data); err == nil {
			s.with(log, func(segment *segment) []frame { return segment.hearNDP(message, from, time.Now()) })
		}
	})
}

// with lets the segment take something in, and sends what follows.
func (s *station) with(log logr.Logger, take func(*segment) []frame) {
	s.mu.Lock()
	frames := take(s.segment)
	s.mu.Unlock()
	for _, frame := range frames {
		err := s.wire.send(frame)
		s.metrics.sent(frame.is6, err)
		s.mu.Lock()
		report := err != nil && !s.failing
		s.failing = err != nil
		s.mu.Unlock()
		if report {
			log.Error(err, "Could not send")
		}
	}
}
