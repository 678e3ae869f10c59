// Package health probes the nodes that may be next hops: kube-proxy's own health, and the health-check node ports of Services
// with externalTrafficPolicy Local. One probe serves all Services: what is probed grows with nodes and ports.
//
// state.go derives the health state of one port from the outcomes of its probes, and board.go what needs all ports; both are
// functions of what was seen. prober.go schedules the probes, and http.go sends them.
//
// See ADR 77 and ADR 79.
package health

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// locality reports whether an address is one of this machine.
type locality func(netip.Addr) bool

// asker asks one port, again and again. It returns within the timeout.
type asker interface {
	ask(ctx context.Context, at netip.AddrPort, kubeProxy bool, timeout time.Duration) answer
	connect(ctx context.Context, at netip.AddrPort, timeout time.Duration) answer
	close()
}

// Snapshot is what is known at a moment.
type Snapshot struct {
	// Health is the health state of each port.
	Health map[model.Probe]model.Health
	// Blind says that no port elsewhere is answering: the health states are those from before.
	Blind bool
	// Unproven says that no kube-proxy has ever answered where it is asked, or that none did a moment ago.
	Unproven bool
	// Ready says that the first round over the first targets is over, or has taken as long as it may.
	Ready bool
}

// Prober probes the ports that SetTargets names. It is safe for concurrent use.
type Prober struct {
	asker   func() asker // makes one
	local   func() (locality, error)
	metrics *metrics
	changed chan struct{}

	mu       sync.Mutex
	settings config.Health
	board    *board
	targets  map[model.Probe]*target
	// assigned is when targets were first given; zero before.
	assigned time.Time
	ready    bool
	// noneAt is when no kube-proxy was healthy the last time that was looked at, once ready; zero if one always was.
	noneAt time.Time
	// tolerant is what unproven was the last time that was looked at.
	tolerant bool
	blind    bool
	// blindAt is when nothing was answered the last time that was looked at.
	blindAt time.Time
	running context.Context // nil while Run does not
	loops   sync.WaitGroup
}

// target is one port that is probed.
type target struct {
	addr netip.Addr
	stop context.CancelFunc // nil while nothing runs
}

// New returns a prober that probes nothing yet. The settings have their defaults.
func New(settings config.Health, registerer prometheus.Registerer) *Prober {
	return newProber(settings, registerer, newHTTPAsker, ownAddresses)
}

func newProber(settings config.Health, registerer prometheus.Registerer, asker func() asker,
	local func() (locality, error)) *Prober {
	p := &Prober{
		asker: asker, local: local, changed: make(chan struct{}, 1),
		settings: settings, board: newBoard(limitsOf(settings)), targets: map[model.Probe]*target{},
	}
	p.metrics = newMetrics(registerer, p)
	return p
}

func limitsOf(settings config.Health) limits {
	return limits{
		failures: settings.Failures, successes: settings.Successes, margin: settings.Interval.Duration / 5,
		refusedWait: settings.RefusedWait.Duration,
	}
}

// Run probes until ctx ends, and returns when all goroutines have ended. It is called once.
func (p *Prober) Run(ctx context.Context) {
	p.mu.Lock()
	p.running = ctx
	for probe, target := range p.targets {
		p.start(probe, target)
	}
	p.mu.Unlock()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(p.Settings().Interval.Duration / 5):
			p.look()
		}
	}
	p.mu.Lock()
	p.running = nil
	for _, target := range p.targets {
		target.stop()
	}
	p.mu.Unlock()
	p.loops.Wait()
}

// Settings returns the settings in force.
func (p *Prober) Settings() config.Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

// Configure puts other settings in force, from each port's next probe on. Health states stay.
func (p *Prober) Configure(settings config.Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settings.KubeProxyProbe != settings.KubeProxyProbe || p.settings.KubeProxyPort != settings.KubeProxyPort {
		p.board.askElsewhere()
	}
	p.settings, p.board.limits = settings, limitsOf(settings)
}

// SetTargets says what is to be probed, and at which addresses. What stays keeps its health; one with another address begins anew.
func (p *Prober) SetTargets(targets map[model.Probe]netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.assigned.IsZero() {
		p.assigned = time.Now()
	}
	for probe, known := range p.targets {
		if addr, wanted := targets[probe]; wanted && addr == known.addr {
			continue
		}
		if known.stop != nil {
			known.stop()
		}
		delete(p.targets, probe)
		p.board.remove(probe)
	}
	var isLocal locality
	for probe, addr := range targets {
		if _, known := p.targets[probe]; known {
			continue
		}
		if isLocal == nil {
			isLocal = p.locality()
		}
		added := &target{addr: addr}
		p.targets[probe] = added
		p.board.add(probe, isLocal(addr))
		if p.running != nil {
			p.start(probe, added)
		}
	}
}

// locality returns a function that recognizes the machine's own addresses. If they cannot be listed, it recognizes none.
func (p *Prober) locality() locality {
	isLocal, err := p.local()
	if err != nil {
		return func(netip.Addr) bool { return false }
	}
	return isLocal
}

// Snapshot returns what is known now.
func (p *Prober) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	result := Snapshot{Health: make(map[model.Probe]model.Health, len(p.board.ports)), Blind: p.blind, Ready: p.ready}
	result.Unproven = p.unproven(time.Now())
	for probe, port := range p.board.ports {
		result.Health[probe] = port.health
	}
	return result
}

// Changed returns a channel that says that the next Snapshot differs. It has room for one.
func (p *Prober) Changed() <-chan struct{} { return p.changed }

// start begins to probe a target. The lock is held.
func (p *Prober) start(probe model.Probe, target *target) {
	ctx, stop := context.WithCancel(p.running)
	target.stop = stop
	p.loops.Go(func() { p.follow(ctx, probe, target) })
}

// follow probes one target until ctx ends. It begins within an interval at random, so probes are spread in time.
func (p *Prober) follow(ctx context.Context, probe model.Probe, target *target) {
	timer := time.NewTimer(rand.N(p.Settings().Interval.Duration))
	defer timer.Stop()
	asker := p.asker()
	defer asker.close()
	atOnce := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		settings, witness := p.begin(probe)
		began := time.Now()
		said := probeOnce(ctx, asker, target.addr, probe, settings)
		if ctx.Err() != nil {
			return
		}
		p.metrics.asked(said)
		interval, before := settings.Interval.Duration, atOnce
		switch atOnce = p.note(probe, target, outcome{answer: said, began: began, witness: witness}); {
		case atOnce:
			interval /= 10
		case before: // all ports may have been asked at once: ports that are asked together bear no witness for each other
			interval = rand.N(interval)
		}
		timer.Reset(max(0, interval-time.Since(began)))
	}
}

// probeOnce asks a port once, as the settings say.
func probeOnce(ctx context.Context, asker asker, addr netip.Addr, probe model.Probe, settings config.Health) answer {
	timeout := settings.Timeout.Duration
	if probe.Port != 0 {
		return asker.ask(ctx, netip.AddrPortFrom(addr, uint16(probe.Port)), false, timeout)
	}
	at := netip.AddrPortFrom(addr, uint16(settings.KubeProxyPort))
	if settings.KubeProxyProbe == config.ProbeTCP {
		return asker.connect(ctx, at, timeout)
	}
	return asker.ask(ctx, at, true, timeout)
}

// begin returns with what a probe begins: the settings, and what witness there is that the prober works.
func (p *Prober) begin(probe model.Probe) (config.Health, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings, p.board.witness(probe)
}

// note takes an outcome to the board, unless the target has been replaced meanwhile. It reports whether the port is asked again at once: it returns, see
// state, or all are asked for the first time, since what has just been started here is this prober.
func (p *Prober) note(probe model.Probe, target *target, seen outcome) (atOnce bool) {
	p.mu.Lock()
	changed := p.targets[probe] == target && p.board.observe(probe, seen)
	atOnce = p.board.returns(probe) || !p.ready && seen.answer == welcoming
	p.mu.Unlock()
	if changed {
		p.signal()
	}
	return atOnce
}

// unproven reports whether nodes that refuse connections count as working: no kube-proxy has ever answered, or none did a moment ago. When
// kube-proxies return everywhere, one of them is the first. The others have refusedWait to follow before they become fallbacks, or all
// traffic would go to that one for a moment. The lock is held.
func (p *Prober) unproven(now time.Time) bool {
	returning := !p.noneAt.IsZero() && now.Sub(p.noneAt) < p.settings.RefusedWait.Duration
	return p.board.unproven() || returning
}

// look sees to what follows from the passing of time.
func (p *Prober) look() {
	p.mu.Lock()
	now, patience := time.Now(), patienceOf(p.settings)
	ready := p.ready || !p.assigned.IsZero() && (len(p.targets) == 0 || p.board.decided() || now.Sub(p.assigned) >= patience)
	if p.board.blind(now.Add(-patience)) {
		p.blindAt = now
	}
	// It ends when all that answers again has had the time for a health.
	blind := ready && !p.blindAt.IsZero() && now.Sub(p.blindAt) < patience && (p.blind || p.blindAt.Equal(now))
	if ready && p.board.unserved() {
		p.noneAt = now
	}
	unproven := p.unproven(now)
	changed := ready != p.ready || blind != p.blind || unproven != p.tolerant
	p.ready, p.blind, p.tolerant = ready, blind, unproven
	p.mu.Unlock()
	if changed {
		p.signal()
	}
}

// patienceOf is the time in which any port's health is reached that is ever reached.
func patienceOf(settings config.Health) time.Duration {
	step := max(settings.Interval.Duration, settings.Timeout.Duration)
	return time.Duration(max(settings.Failures, settings.Successes)+1) * step
}

func (p *Prober) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// ownAddresses returns a function that recognizes the addresses of this machine, or of its network namespace.
func ownAddresses() (locality, error) {
	addresses, err := self.Addresses()
	if err != nil {
		return nil, err
	}
	own := make(map[netip.Addr]bool, len(addresses))
	for _, addr := range addresses {
		own[addr] = true
	}
	return func(addr netip.Addr) bool { return own[addr] }, nil
}

// counts returns how many ports there are by health.
func (p *Prober) counts() map[model.Health]int {
	counts := map[model.Health]int{}
	for health := range maps.Values(p.Snapshot().Health) {
		counts[health]++
	}
	return counts
}
