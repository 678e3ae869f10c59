package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// Name is the controller's name, as in the reference.
const Name = "service-lb-controller"

const (
	// spareWorkers are for what neither calls the cloud nor has just done so, such as finding out that there is nothing to do.
	spareWorkers = 7
	// firstSettling bounds how long all Services wait at the start for a cloud that has to say whose some node is.
	firstSettling = 10 * time.Second
)

// workersFor returns how many Services are worked on at once. While a Service whose load balancer was made is written to the API
// server, another one has its place in the cloud already.
func workersFor(writes int) int { return 2*writes + spareWorkers }

// Options are what the controller works with. Client, LiveReader, Cache, Recorder, Cloud and Inventory are required.
type Options struct {
	// Client reads from Cache and writes with the controller's identity.
	Client client.Client
	// LiveReader reads from the API server itself.
	LiveReader client.Reader
	// Cache delivers the watches of Services and nodes.
	Cache cache.Cache
	// Recorder records events on Services.
	Recorder record.EventRecorder
	// Cloud has the load balancers. Its calls are expected to have deadlines of their own, see package cloud.
	Cloud cloudprovider.Interface
	// ClusterName is the name of the cluster that the plugin gets.
	ClusterName string
	// Inventory knows the cloud's instances. It is asked about nodes that do not say by their provider ID whose they are.
	Inventory *instances.Inventory
	// Ownership says which nodes are ours.
	Ownership ownership.Rules
	// Classes say which Services are ours.
	Classes Classes
	// Writes is how many calls that change load balancers may be under way at once. Zero: what the provider declares, or one.
	Writes int
	// TargetQuiet is how long the set of nodes must have been still before load balancers hear of a change, and TargetDelay how
	// long they wait for that at most. Zero: DefaultTargetQuiet and DefaultTargetDelay.
	TargetQuiet, TargetDelay time.Duration
	// FirstRetry and LongestRetry bound the pause after a failure. Zero: DefaultFirstRetry and DefaultLongestRetry.
	FirstRetry, LongestRetry time.Duration
	// AuditPeriod is how often load balancers are compared with the cloud. Zero: DefaultAuditPeriod; negative: never.
	AuditPeriod time.Duration
	// AuditCalls is how many calls a minute that may cost where the cloud cannot list. Zero: DefaultAuditCalls.
	AuditCalls int
	// CollectLeftovers says that load balancers of this cluster that belong to no Service are deleted.
	CollectLeftovers bool
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Logger is what the controller logs to.
	Logger logr.Logger
}

// Controller looks after the load balancers of Services. It is a controller-runtime Runnable that needs leader election and
// warms up without.
type Controller struct {
	options Options
	*kit.Controller
	reconciler *reconciler
	targets    *targets
	memory     *memory
	metrics    *metrics
	enqueuer   *kit.Enqueuer
	// leftoversTurn is sent to when the write limiter has admitted leftovers.
	leftoversTurn chan struct{}
}

// New returns a controller that has not started yet. All options that are missing are named in one error.
func New(options Options) (*Controller, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	metrics, memory := newMetrics(options.Registerer), newMemory()
	targets := &targets{
		reader: options.Client, rules: options.Ownership, evidence: &ownership.Evidence{},
		quiet: options.TargetQuiet, delay: options.TargetDelay, retry: options.FirstRetry, metrics: metrics, changed: make(chan struct{}, 1),
	}
	targets.start(options.Inventory)
	reconciler := &reconciler{
		reader: options.Client, recorder: options.Recorder, classes: options.Classes, targets: targets, memory: memory,
		metrics: metrics, backoff: backoff{first: options.FirstRetry, longest: options.LongestRetry},
	}
	c := &Controller{
		options: options, reconciler: reconciler, targets: targets, memory: memory, metrics: metrics, enqueuer: &kit.Enqueuer{},
		leftoversTurn: make(chan struct{}, 1),
	}
	reconciler.limiter = newWriteLimiter(options.Writes, c.admit)
	registerCounts(options.Registerer, memory, reconciler.limiter)
	watcher := watcher{classes: options.Classes, memory: memory, targets: targets}
	var err error
	c.Controller, err = kit.NewController(Name, kit.ControllerOptions{
		Reconciler: reconciler, Workers: workersFor(options.Writes), Logger: options.Logger,
		LoggerFor: func(service types.NamespacedName) logr.Logger {
			return options.Logger.WithValues("service", service.String())
		},
		Sources: []source.Source{
			source.Kind(options.Cache, &corev1.Service{}, watcher.services()),
			source.Kind(options.Cache, &corev1.Node{}, watcher.nodes()),
			source.Func(c.enqueuer.Capture),
		},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// complete fills in defaults and returns all that is missing.
func (o *Options) complete() error {
	err := kit.CheckRequired("service controller",
		kit.Required{Name: "Client", Missing: o.Client == nil}, kit.Required{Name: "LiveReader", Missing: o.LiveReader == nil},
		kit.Required{Name: "Cache", Missing: o.Cache == nil}, kit.Required{Name: "Recorder", Missing: o.Recorder == nil},
		kit.Required{Name: "Cloud", Missing: o.Cloud == nil}, kit.Required{Name: "Inventory", Missing: o.Inventory == nil},
	)
	if err != nil {
		return err
	}
	if o.Writes <= 0 {
		o.Writes = max(provider.CapabilitiesOf(o.Cloud).LoadBalancerWrites, 1)
	}
	for _, duration := range []struct {
		value *time.Duration
		zero  time.Duration
	}{
		{&o.TargetQuiet, DefaultTargetQuiet},
		{&o.TargetDelay, DefaultTargetDelay},
		{&o.FirstRetry, DefaultFirstRetry},
		{&o.LongestRetry, DefaultLongestRetry},
		{&o.AuditPeriod, DefaultAuditPeriod},
	} {
		if *duration.value == 0 {
			*duration.value = duration.zero
		}
	}
	if o.AuditCalls <= 0 {
		o.AuditCalls = DefaultAuditCalls
	}
	return nil
}

// Start works until ctx ends. With a plugin that has no load balancers it says so and does nothing, as the reference does.
func (c *Controller) Start(ctx context.Context) error {
	balancer, offered := c.options.Cloud.LoadBalancer()
	if !offered || balancer == nil {
		c.options.Logger.Info("The cloud provider has no load balancers; Services are not looked after", "provider", c.options.Cloud.ProviderName())
		<-ctx.Done()
		return nil
	}
	ctx = logf.IntoContext(ctx, c.options.Logger)
	applier := &applier{
		balancer: balancer, change: provider.CapabilitiesOf(c.options.Cloud).ChangeTargets,
		client: c.options.Client, clusterName: c.options.ClusterName, clusterUID: clusterUID(c.options.Client),
	}
	c.reconciler.applier = applier
	defer c.reconciler.limiter.stop()
	auditor := c.newAuditor(applier)
	c.settleFirst(ctx)
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	others.Go(func() { c.targets.run(ctx, func() { c.retarget(ctx, auditor) }) })
	others.Go(func() { auditor.run(ctx) })
	if retries := provider.CapabilitiesOf(c.options.Cloud).RetryLoadBalancers; retries != nil {
		others.Go(func() { retries(ctx, c.retry) })
	}
	if routes, offered := c.options.Cloud.Routes(); offered && routes != nil && c.options.AuditPeriod > 0 {
		looking := &strays{
			routes: routes, clusterName: c.options.ClusterName, period: c.options.AuditPeriod, reader: c.options.Client, metrics: c.metrics,
		}
		others.Go(func() { looking.run(ctx) })
	}
	return c.Controller.Start(ctx)
}

// settleFirst determines the set of targets before the first Service is looked at, which then need not wait for it. A cloud that
// does not answer is not waited for longer than for nodes that do not settle: deletions and new Services can do without.
func (c *Controller) settleFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(firstSettling, c.options.TargetDelay))
	defer cancel()
	if err := c.targets.settle(ctx); err != nil && !errors.Is(err, context.Canceled) {
		c.options.Logger.Info("The set of targets is not known yet; Services that have load balancers wait for it", "reason", err.Error())
	}
}

func (c *Controller) newAuditor(applier *applier) *auditor {
	return &auditor{
		list:   provider.CapabilitiesOf(c.options.Cloud).ListLoadBalancers,
		period: c.options.AuditPeriod, calls: c.options.AuditCalls,
		reader: c.options.Client, recorder: c.options.Recorder, applier: applier, targets: c.targets, memory: c.memory, metrics: c.metrics,
		classes: c.options.Classes, enqueue: c.enqueuer.Add,
		leftovers: &collector{
			cached: c.options.Client, live: c.options.LiveReader, applier: applier, limiter: c.reconciler.limiter, turn: c.leftoversTurn,
			memory: c.memory, metrics: c.metrics, recorder: c.options.Recorder, collect: c.options.CollectLeftovers,
		},
	}
}

// retry ends the pause of a Service that has failed, because the provider says that it is worth it.
func (c *Controller) retry(key types.NamespacedName) {
	known, found := c.memory.recall(key)
	if !found || known.failure == nil {
		return
	}
	c.memory.change(key, func(now *remembered) {
		if now.failure != nil {
			due := *now.failure
			due.retryAt = time.Now()
			now.failure = &due
		}
	})
	c.enqueuer.Add(key, priorityChange)
}

// admit has a pass that waited for the write limiter made again, before all others: a place is reserved for it.
func (c *Controller) admit(key types.NamespacedName) {
	if key != leftoversTurn {
		c.enqueuer.Add(key, priorityAdmitted)
		return
	}
	select {
	case c.leftoversTurn <- struct{}{}:
	default:
	}
}

// retarget queues the load balancers whose targets are not those that they shall have, and the Services that have waited for
// the targets to be known.
func (c *Controller) retarget(ctx context.Context, auditor *auditor) {
	settled, _, err := c.targets.sets(ctx)
	if err != nil {
		return // the next time that they settle
	}
	var due []types.NamespacedName
	for key, known := range c.memory.all() {
		switch {
		case known.failure != nil && known.failure.reason == ReasonTargetsUnknown:
			c.memory.change(key, func(now *remembered) { now.failure = nil })
			c.enqueuer.Add(key, priorityChange)
		case known.made != nil && known.made.followsAlone() && (known.made.targets == nil || !settled.servedBy(known.made.targets)):
			due = append(due, key)
		}
	}
	due = auditor.withoutServed(ctx, due)
	c.metrics.beginRound(due, time.Now())
	for _, key := range due {
		c.enqueuer.Add(key, priorityRetarget)
	}
}
