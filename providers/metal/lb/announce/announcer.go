package announce

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/lb/health"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// coalesce is how long further changes are waited for after one: what belongs together arrives together.
const coalesce = 20 * time.Millisecond

// Sink announces a table, in the place of the one that it was given before. It is not called again before it returns; after an
// error it is given the table again, or a newer one.
type Sink interface {
	Announce(ctx context.Context, announced routing.Table) error
}

// Prober says which nodes work. It is what health.Prober does.
type Prober interface {
	Run(ctx context.Context)
	Configure(settings config.Health)
	SetTargets(targets map[model.Probe]netip.Addr)
	Snapshot() health.Snapshot
	Changed() <-chan struct{}
}

// Options are what an Announcer needs.
type Options struct {
	// Informers are not started yet, and are started by the caller after New. They get a transform that drops what takes room and
	// decides nothing, so they are for announcing only.
	Informers informers.SharedInformerFactory
	Prober    Prober
	// Sinks get each table, by name.
	Sinks map[string]Sink
	// Config has its defaults.
	Config config.Announcement
	// Advertising says which BGP peers are announced what; nil announces everything to all.
	Advertising *Advertising
	// PoolOf returns the name of the pool of an address, empty if it is of none.
	PoolOf func(netip.Addr) string
	// PoolOverlap returns the name of a pool with addresses in a range, or empty if no pool has any. Nil: there are no pools.
	PoolOverlap func(netip.Prefix) string
	// OwnNode returns the name of the node on which this replica runs, empty if that is not known. Nil: it never is.
	OwnNode func() string
	// ClusterCIDRs are the ranges in which those of pods have to be where the config does not say it; none: anywhere.
	ClusterCIDRs []netip.Prefix
	// Networks returns those of this machine on which ARP and NDP are answered, and NetworksChanged has something to receive after they have
	// changed. Nil where none is.
	Networks        func() []netip.Prefix
	NetworksChanged <-chan struct{}
	// L2 returns the section of the config in force. Nil where there is none.
	L2 func() *config.L2
	// OwnsService reports whether the addresses in the status of a Service are of ours. Nil means TakenOn.
	OwnsService func(*corev1.Service) bool
	// OwnsNode reports whether a node is a machine of ours. Nil means that all are.
	OwnsNode   func(*corev1.Node) bool
	Registerer prometheus.Registerer
}

// Announcer keeps the sinks up to date. It is safe for concurrent use.
type Announcer struct {
	cluster *clusterState
	prober  Prober
	sinks   map[string]*delivery
	metrics *metrics
	// reconfigured has room for one.
	reconfigured    chan struct{}
	poolOverlap     func(netip.Prefix) string
	clusterCIDRs    []netip.Prefix
	ownNode         func() string
	networks        func() []netip.Prefix
	networksChanged <-chan struct{}
	l2              func() *config.L2

	mu          sync.Mutex
	config      config.Announcement
	advertising *Advertising
	poolOf      func(netip.Addr) string
	current     Snapshot
	draining    map[types.UID]time.Time
	local       map[types.UID]time.Time
	targets     map[model.Probe]netip.Addr
	watchers    map[chan struct{}]bool
}

// Snapshot is what is announced at a moment, and why. It is not to be changed.
type Snapshot struct {
	// Complete says that a table has been handed on; before, the rest is empty.
	Complete bool
	Table    routing.Table
	Services map[types.NamespacedName]model.ServiceState
	Nodes    map[string]model.NodeState
	// Blind says that no probe is answered, and the last known health states are kept.
	Blind bool
	// Unproven says that no kube-proxy has ever answered where it is asked, so nodes count as working while they live.
	Unproven bool
}

// New returns an Announcer whose informers can be started.
func New(options Options) (*Announcer, error) {
	if options.OwnsService == nil {
		options.OwnsService = TakenOn
	}
	if options.OwnsNode == nil {
		options.OwnsNode = func(*corev1.Node) bool { return true }
	}
	if options.OwnNode == nil {
		options.OwnNode = func() string { return "" }
	}
	if options.Networks == nil {
		options.Networks = func() []netip.Prefix { return nil }
	}
	cluster, err := watch(options.Informers, options.OwnsNode, options.OwnsService)
	if err != nil {
		return nil, err
	}
	metrics := newMetrics(options.Registerer)
	sinks := map[string]*delivery{}
	for name, sink := range options.Sinks {
		failures := metrics.failures.WithLabelValues(name)
		sinks[name] = &delivery{name: name, sink: sink, newer: make(chan routing.Table, 1), failures: failures}
	}
	return &Announcer{
		cluster: cluster, prober: options.Prober, sinks: sinks, metrics: metrics, reconfigured: make(chan struct{}, 1),
		config: options.Config, advertising: options.Advertising, poolOf: options.PoolOf, watchers: map[chan struct{}]bool{},
		poolOverlap: options.PoolOverlap, clusterCIDRs: options.ClusterCIDRs, networks: options.Networks, networksChanged: options.NetworksChanged,
		l2: options.L2, ownNode: options.OwnNode,
	}, nil
}

// Reconfigure puts another config, with its defaults, and other pools in force, and asks anew which nodes and Services are of ours.
func (a *Announcer) Reconfigure(announcement config.Announcement, advertising *Advertising, poolOf func(netip.Addr) string) {
	a.mu.Lock()
	a.config, a.advertising, a.poolOf = announcement, advertising, poolOf
	a.mu.Unlock()
	a.prober.Configure(announcement.Health)
	select {
	case a.reconfigured <- struct{}{}:
	default:
	}
}

// Snapshot returns what is announced now.
func (a *Announcer) Snapshot() Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current
}

// Subscribe returns a channel that says that the Snapshot has changed, and has room for one, until cancel is called.
func (a *Announcer) Subscribe() (changed <-chan struct{}, cancel func()) {
	channel := make(chan struct{}, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers[channel] = true
	return channel, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watchers, channel)
	}
}

// Run announces until ctx ends; it withdraws nothing at the end. Nothing is handed on before everything was listed and the first
// round of probes is over: a replica that is restarted must not begin with less than it ended with. When the API server is away
// later, what it last said stays in force, and probes go on.
func (a *Announcer) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := logr.FromContextOrDiscard(ctx).WithName("announce")
	if !cache.WaitForCacheSync(ctx.Done(), a.cluster.synced...) {
		return nil
	}
	a.retarget()
	running.Go(func() { a.prober.Run(ctx) })
	for _, sink := range a.sinks {
		running.Go(func() { sink.run(ctx, log) })
	}
	took := time.Duration(0)
	for next := time.Duration(0); ; {
		timer := time.NewTimer(next)
		if next == 0 {
			timer.Stop() // nothing is due
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-a.cluster.changed:
		case <-a.prober.Changed():
		case <-a.networksChanged:
		case <-a.reconfigured:
			a.cluster.refilter()
		case <-timer.C:
		}
		timer.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(coalesce, 2*took)): // however large the cluster is, deciding leaves time for other things
		}
		began := time.Now()
		a.retarget()
		next = a.announce(log)
		took = time.Since(began)
	}
}

// input gathers what decides.
func (a *Announcer) input() (Input, *Advertising) {
	a.mu.Lock()
	in := Input{Now: time.Now(), PoolOf: a.poolOf, Draining: a.draining, Local: a.local, Announced: a.current.Table,
		PoolOverlap: a.poolOverlap, Settings: settingsOf(a.config), Networks: a.networks()}
	if a.l2 != nil {
		in.Segments = segmentRules(a.l2())
	}
	if len(in.Settings.PodCIDRs) == 0 {
		in.Settings.PodCIDRs = a.clusterCIDRs
	}
	advertising := a.advertising
	a.mu.Unlock()
	a.cluster.fill(&in)
	if advertising.needsOwnNode() {
		in.OwnNode = a.ownNode()
	}
	return in, advertising
}

func settingsOf(announcement config.Announcement) Settings {
	return Settings{
		Selector:        announcement.Selector(),
		ClusterNextHops: announcement.ClusterNextHops,
		LocalNextHops:   announcement.LocalNextHops,
		DrainWait:       announcement.DrainWait.Duration,
		PodRoutes:       *announcement.PodRoutes,
		PodCIDRs:        announcement.PodPrefixes(),
		Unprobed:        announcement.Health.KubeProxyProbe == config.ProbeNone,
		DrainOnCordon:   announcement.DrainOnCordon,

		IgnoreExcludeLabel: announcement.IgnoreExcludeLabel,
	}
}

// retarget sets what the prober probes.
func (a *Announcer) retarget() {
	targets := targetsOf(a.input())
	a.mu.Lock()
	same := a.targets != nil && maps.Equal(a.targets, targets)
	a.targets = targets
	a.mu.Unlock()
	if !same {
		a.prober.SetTargets(targets)
	}
}

// announce decides, hands the table on if it differs from the last one, and returns after what time alone it has to decide again,
// zero if it has not.
func (a *Announcer) announce(log logr.Logger) time.Duration {
	seen := a.prober.Snapshot()
	if !seen.Ready {
		return 0 // the prober says when it is
	}
	in, advertising := a.input()
	in.Health, in.Blind, in.Unproven = seen.Health, seen.Blind, seen.Unproven
	out := Desired(in)
	advertising.advertise(in, &out)
	next := Snapshot{Complete: true, Table: out.Table, Services: out.Services, Nodes: out.Nodes, Blind: seen.Blind,
		Unproven: seen.Unproven}

	a.mu.Lock()
	before := a.current
	a.current, a.draining, a.local = next, out.Draining, out.Local
	watchers := maps.Clone(a.watchers)
	a.mu.Unlock()

	a.metrics.record(next)
	logChanges(log, before, next)
	if !before.Complete || !before.Table.Equal(next.Table) {
		for _, sink := range a.sinks {
			sink.give(next.Table)
		}
	}
	for watcher := range watchers {
		select {
		case watcher <- struct{}{}:
		default:
		}
	}
	if out.Next.IsZero() {
		return 0
	}
	return max(time.Millisecond, out.Next.Sub(in.Now))
}

// logChanges says what has become of nodes, and whether the prober can be trusted.
func logChanges(log logr.Logger, before, after Snapshot) {
	const most = 10
	said := 0
	for name, state := range after.Nodes {
		if known, found := before.Nodes[name]; found && known.NextHop == state.NextHop && known.Reason == state.Reason {
			continue
		}
		if said++; said <= most {
			log.Info("A node's part in load balancing has changed", "node", name, "nextHopState", state.NextHop.String(),
				"reason", string(state.Reason), "removal", state.Removal)
		}
	}
	if said > most {
		log.Info("Further nodes have changed", "count", said-most)
	}
	logPodProblems(log, before, after)
	switch {
	case after.Blind && !before.Blind:
		log.Error(nil, "No node answers a probe; keeping the last known health states. Check the network of this replica")
	case before.Blind && !after.Blind:
		log.Info("Probes are answered again")
	}
	switch {
	case after.Unproven && !before.Unproven:
		log.Info("No kube-proxy answers at its health port; treating all living nodes as healthy." +
			" Set announcement.health.kubeProxyProbe or kubeProxyPort")
	case before.Unproven && !after.Unproven:
		log.Info("Kube-proxies answer at their health ports; using their health checks")
	}
	if !before.Complete || len(before.Table) != len(after.Table) {
		log.Info("Announcing", "destinations", len(after.Table), "before", len(before.Table))
	}
}

// logPodProblems names nodes with other ranges that are not announced than before.
func logPodProblems(log logr.Logger, before, after Snapshot) {
	for name, state := range after.Nodes {
		for _, problem := range state.PodProblems {
			if !slices.Contains(before.Nodes[name].PodProblems, problem) {
				log.Error(nil, "A pod CIDR is not announced", "node", name, "destination", problem.CIDR.String(), "reason", problem.Message())
			}
		}
	}
}
