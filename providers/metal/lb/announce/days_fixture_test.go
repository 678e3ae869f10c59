package announce

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/lb/health"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// detection is how long probes take to find out that a node is dead, or lives again. How the prober does so is tested in package health.
const detection = 3 * time.Second

// slowProber is a prober that knows after detection which nodes live.
type slowProber struct {
	mu      sync.Mutex
	dead    map[string]bool
	blind   bool
	targets map[model.Probe]netip.Addr
	changed chan struct{}
}

func newSlowProber(dead map[string]bool) *slowProber {
	return &slowProber{dead: maps.Clone(dead), changed: make(chan struct{}, 1)}
}

func (p *slowProber) Run(ctx context.Context)  { <-ctx.Done() }
func (p *slowProber) Configure(config.Health)  {}
func (p *slowProber) Changed() <-chan struct{} { return p.changed }

func (p *slowProber) SetTargets(targets map[model.Probe]netip.Addr) {
	p.change(func() { p.targets = targets })
}

// find has the prober find out that a node is dead or lives, unless it is blind.
func (p *slowProber) find(node string, dead bool) {
	p.change(func() {
		if !p.blind {
			p.dead[node] = dead
		}
	})
}

// see has the prober be blind, or see again.
func (p *slowProber) see(blind bool, dead map[string]bool) {
	p.change(func() { p.blind, p.dead = blind, maps.Clone(dead) })
}

// change changes what the prober knows.
func (p *slowProber) change(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *slowProber) Snapshot() health.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := health.Snapshot{Health: map[model.Probe]model.Health{}, Blind: p.blind, Ready: true}
	for probe := range p.targets {
		seen.Health[probe] = model.Healthy
		if p.dead[probe.Node] {
			seen.Health[probe] = model.Unhealthy
		}
	}
	return seen
}

// speaker is a replica: an Announcer, and what it has told routers.
type speaker struct {
	*Announcer
	prober *slowProber
	end    func()

	mu      sync.Mutex
	table   routing.Table
	changes int
}

// Announce is a Sink: what the sessions of this replica carry.
func (s *speaker) Announce(_ context.Context, announced routing.Table) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = announced
	s.changes++
	return nil
}

func (s *speaker) announced() (routing.Table, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table, s.changes
}

// foreignLabel marks nodes that are no machines of ours.
const foreignLabel = "foreign"

// startSpeaker starts a replica.
func startSpeaker(t *testing.T, client *fake.Clientset, dead map[string]bool) *speaker {
	t.Helper()
	s := &speaker{prober: newSlowProber(dead)}
	factory := informers.NewSharedInformerFactory(client, 0)
	var err error
	s.Announcer, err = New(Options{
		Informers: factory, Prober: s.prober, Sinks: map[string]Sink{"routers": s}, Config: config.Announcement{}.WithDefaults(),
		PoolOf:   func(netip.Addr) string { return "public" },
		OwnsNode: func(node *corev1.Node) bool { return node.Labels[foreignLabel] == "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	s.end = func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	}
	return s
}

// router is what a router makes of the sessions that are up: the next hops of all replicas, and of a destination for which a replica sees
// nothing only where no other one says anything.
type router struct{ down map[int]bool }

// table returns the next hops of each destination.
func (r router) table(replicas []*speaker) table {
	certain, uncertain := table{}, table{}
	for i, replica := range replicas {
		if r.down[i] {
			continue
		}
		announced, _ := replica.announced()
		for prefix, route := range announced {
			into := certain
			if route.Uncertain {
				into = uncertain
			}
			into[prefix] = append(into[prefix], route.NextHops...)
		}
	}
	for prefix, hops := range uncertain {
		if len(certain[prefix]) == 0 {
			certain[prefix] = hops
		}
	}
	for prefix, hops := range certain {
		slices.SortFunc(hops, netip.Addr.Compare)
		certain[prefix] = slices.Compact(hops)
	}
	return certain
}
