// Package service is the service controller. It gives Services of type LoadBalancer their load balancer in the cloud, keeps the
// nodes behind it and what the Service shows of it up to date, and takes it away again.
//
// Data flows one way. Three things put a Service's key into the queue: a watch event (here), a change of the nodes (targets.go), or a comparison
// with the cloud (drift.go). reconcile.go makes a pass and collects what is known. desired.go and plan.go decide what to write, and apply.go calls
// the plugin and the API server. Writes pass the write limiter of the package writelimit. Only state.go remembers the outcome and says when to retry
// a Service. events.go reports the outcome and changes nothing; reasons.go names failures.
package service

import (
	"cmp"
	"context"
	"slices"
	"strings"
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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/service/orphancheck"
	"github.com/mooring-ccm/mooring/internal/controller/service/writelimit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/required"
	"github.com/mooring-ccm/mooring/provider"
)

// Name is the controller's name, as in the reference.
const Name = "service-lb-controller"

// spareWorkers are for what neither calls the cloud nor has just done so, such as finding out that there is nothing to do.
const spareWorkers = 7

// workersFor returns how many Services are worked on at once. While a Service whose load balancer was made is written to the API
// server, another one has its place in the cloud already.
func workersFor(writes int) int { return 2*writes + spareWorkers }

// Options are what the controller works with. Client, LiveReader, Cache, Recorder and Cloud are required.
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
	// Owners knows whose nodes are.
	Owners ownership.Rules
	// Classes say which Services are ours.
	Classes Classes
	// Writes is how many Services may be ensured or lose their load balancers at once; as many targets may be changed beside that. Zero: what
	// the provider declares for all changes together, or one.
	Writes int
	// TargetQuiet is how long the set of nodes must have been still before load balancers are updated after a change, and TargetDelay how
	// long they wait for that at most. Zero: DefaultTargetQuiet and DefaultTargetDelay.
	TargetQuiet, TargetDelay time.Duration
	// FirstRetry and LongestRetry bound the pause after a failure. Zero: DefaultFirstRetry and kit.LongestRetry.
	FirstRetry, LongestRetry time.Duration
	// DriftCheckPeriod is how often load balancers are compared with the cloud. Zero: DefaultDriftCheckPeriod; negative: never.
	DriftCheckPeriod time.Duration
	// DriftCheckCalls is the most drift-check calls per minute where the cloud cannot list load balancers. Zero: DefaultDriftCheckCalls.
	DriftCheckCalls int
	// AbsenceTime is over what time the cloud must have denied a load balancer for it to be made again. Zero: DefaultAbsenceTime.
	AbsenceTime time.Duration
	// Record is where what was made is recorded for the next leader. Nil: nowhere, and a new leader ensures each load balancer.
	Record *Record
	// CollectOrphans says that load balancers of this cluster that belong to no Service are deleted.
	CollectOrphans bool
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Logger is what the controller logs to.
	Logger logr.Logger

	// shared says that Writes is what the provider declares for all changes together.
	shared bool
}

// Controller looks after the load balancers of Services. It is a controller-runtime Runnable that needs leader election and
// warms up without.
type Controller struct {
	options Options
	*kit.Controller
	*reconciler
	// orphans deletes the load balancers of Services that do not exist.
	orphans *orphanDeleter
	// orphanMetrics count what belongs to no Service and no node.
	orphanMetrics *orphancheck.Metrics
}

// New returns a controller that has not started yet. All options that are missing are named in one error.
func New(options Options) (*Controller, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	c := wire(options)
	watcher := watcher{c.reconciler}
	var err error
	c.Controller, err = kit.NewController(Name, kit.ControllerOptions{
		Reconciler: c.reconciler, Workers: workersFor(c.limiter.Places()), Logger: options.Logger,
		LoggerFor: func(key types.NamespacedName) logr.Logger {
			return options.Logger.WithValues("service", nameOf(key).String())
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

// wire joins the parts of a controller whose options are complete. It has no queue yet, and changes no load balancers before lead.
func wire(options Options) *Controller {
	metrics, states := newMetrics(options.Registerer), newStates()
	targets := &targets{
		reader: options.Client, owners: options.Owners,
		quiet: options.TargetQuiet, delay: options.TargetDelay, metrics: metrics, changed: make(chan struct{}, 1),
		labels: provider.CapabilitiesOf(options.Cloud).SelectsByLabels,
	}
	reconciler := &reconciler{
		reader: options.Client, classes: options.Classes, targets: targets, states: states,
		events:  &events{recorder: options.Recorder, metrics: metrics},
		metrics: metrics, backoff: backoff{first: options.FirstRetry, longest: options.LongestRetry, jitter: true},
		// One that lists load balancers knows them by the UIDs of their Services. Others may go by the name of the Service.
		tellsApart: provider.CapabilitiesOf(options.Cloud).ListLoadBalancers != nil,
	}
	c := &Controller{
		options: options, reconciler: reconciler,
		orphanMetrics: orphancheck.NewMetrics(options.Registerer),
	}
	reconciler.limiter = writelimit.New(options.Writes, options.shared, c.admit, nameOfWriter)
	c.orphans = newOrphanDeleter(reconciler.limiter, options.Recorder)
	registerCounts(options.Registerer, states, reconciler.limiter)
	return c
}

// lead has the controller change load balancers, and keep the record of them.
func (c *Controller) lead(balancer cloudprovider.LoadBalancer) *applier {
	applier := &applier{
		balancer: balancer, change: provider.CapabilitiesOf(c.options.Cloud).ChangeTargets,
		client: c.options.Client, clusterName: c.options.ClusterName, clusterUID: clusterUID(c.options.Client),
	}
	c.applier, c.record = applier, newRecord(c.options.Record, c.lister(applier))
	return applier
}

// complete fills in defaults and returns all that is missing.
func (o *Options) complete() error {
	err := required.Check("service controller",
		required.Option{Name: "Client", Missing: o.Client == nil}, required.Option{Name: "LiveReader", Missing: o.LiveReader == nil},
		required.Option{Name: "Cache", Missing: o.Cache == nil}, required.Option{Name: "Recorder", Missing: o.Recorder == nil},
		required.Option{Name: "Cloud", Missing: o.Cloud == nil},
	)
	if err != nil {
		return err
	}
	if declared := provider.CapabilitiesOf(o.Cloud).LoadBalancerWrites; o.Writes <= 0 {
		o.Writes, o.shared = max(declared, 1), declared > 0
	}
	o.TargetQuiet, o.TargetDelay = cmp.Or(o.TargetQuiet, DefaultTargetQuiet), cmp.Or(o.TargetDelay, DefaultTargetDelay)
	o.FirstRetry, o.LongestRetry = cmp.Or(o.FirstRetry, DefaultFirstRetry), cmp.Or(o.LongestRetry, kit.LongestRetry)
	o.DriftCheckPeriod = cmp.Or(o.DriftCheckPeriod, DefaultDriftCheckPeriod)
	o.AbsenceTime = cmp.Or(o.AbsenceTime, DefaultAbsenceTime)
	if o.DriftCheckCalls <= 0 {
		o.DriftCheckCalls = DefaultDriftCheckCalls
	}
	return nil
}

// Start works until ctx ends. With a plugin that has no load balancers it says so and does nothing, as the reference does.
func (c *Controller) Start(ctx context.Context) error {
	balancer, offered := c.options.Cloud.LoadBalancer()
	if !offered || balancer == nil {
		c.options.Logger.Info("The cloud provider supports no load balancers; not reconciling Services", "provider", c.options.Cloud.ProviderName())
		<-ctx.Done()
		return nil
	}
	ctx = logf.IntoContext(ctx, c.options.Logger)
	drift := c.newDriftCheck(c.lead(balancer))
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	others.Go(func() { c.targets.run(ctx, func() { c.retarget(ctx) }) })
	others.Go(func() { drift.run(ctx) })
	others.Go(func() { c.reconciler.record.run(ctx, c.reconciler.states, c.reconciler.targets) })
	if retries := provider.CapabilitiesOf(c.options.Cloud).RetryLoadBalancers; retries != nil {
		others.Go(func() { retries(ctx, c.retry) })
	}
	return c.Controller.Start(ctx)
}

func (c *Controller) newDriftCheck(applier *applier) *driftCheck {
	return &driftCheck{
		reconciler: c.reconciler, seenAt: map[types.NamespacedName]time.Time{},
		list:   c.lister(applier),
		period: c.options.DriftCheckPeriod, calls: c.options.DriftCheckCalls, absence: c.options.AbsenceTime,
		orphans: &orphancheck.LoadBalancers{
			Cached: c.options.Client, Live: c.options.LiveReader, ClusterUID: applier.clusterUID, Made: c.states.madeFor,
			Delete: func(ctx context.Context, service *corev1.Service, before int) (bool, error) {
				return c.orphans.delete(ctx, applier, service, before)
			},
			DeleteProven: c.options.CollectOrphans, Period: c.options.DriftCheckPeriod, Metrics: c.orphanMetrics, Recorder: c.options.Recorder,
		},
	}
}

// retry ends the pause of a Service that has failed, because the provider says that it is worth it, and has another one ensured again.
func (c *Controller) retry(name types.NamespacedName) {
	for _, key := range c.states.retryNow(name) {
		c.enqueuer.Add(key, priorityChange)
	}
	c.record.note()
}

// admit has a pass that waited for the write limiter made again, before all others: a place is reserved for it.
func (c *Controller) admit(key types.NamespacedName) {
	if key == writelimit.Orphans {
		c.orphans.admit()
		return
	}
	c.enqueuer.Add(key, priorityAdmitted)
}

// byName orders Services: what is due at one time is done in the same order each time.
func byName(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }

// retarget queues the load balancers that do not have the desired targets. A pass under way may have looked at others, and its row does not say yet what
// it makes: another one looks after it.
func (c *Controller) retarget(ctx context.Context) {
	settled, _, err := c.targets.sets(ctx, nil)
	if err != nil {
		return // the next time that they settle
	}
	var due, passing []types.NamespacedName
	for _, row := range c.states.entries() {
		switch made := row.made; {
		case made != nil && made.retargetable() && (made.targets == nil || !c.targets.of(made.service, settled).servedBy(made.targets)):
			due = append(due, row.key)
		case row.taken:
			passing = append(passing, row.key)
		}
	}
	c.metrics.beginRound(due, time.Now())
	for _, key := range slices.SortedFunc(slices.Values(append(due, passing...)), byName) {
		c.enqueuer.Add(key, priorityRetarget)
	}
}

// watcher turns the watches of Services and nodes into work.
type watcher struct{ *reconciler }

// services queues what concerns us: Services that shall have or lose a load balancer, and every change of what it follows.
func (w watcher) services() handler.TypedEventHandler[*corev1.Service, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Service, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Service], q kit.Queue) {
			w.changed(q, nil, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Service], q kit.Queue) {
			w.changed(q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Service], q kit.Queue) { w.gone(q, e.Object) },
	}
}

// gone queues a Service that no longer exists if something is known of it.
func (w watcher) gone(q kit.Queue, service *corev1.Service) {
	if _, found := w.states.get(uidKey(service)); found {
		kit.Add(q, uidKey(service), priorityRemove)
	}
}

// changed queues a Service if a change of it makes a difference to us; before is nil if it is new. Our own writes make none; they would else cut short
// the pause after a failure. Another writer makes one that gives a Service addresses, or takes them back.
func (w watcher) changed(q kit.Queue, before, after *corev1.Service) {
	if before != nil && before.UID != after.UID {
		w.gone(q, before)
		before = nil
	}
	row, _ := w.states.get(uidKey(after))
	is, was := row.intent(after, w.classes), leave
	if before != nil {
		was = row.intent(before, w.classes)
	}
	addressed := func() bool {
		had, has := len(before.Status.LoadBalancer.Ingress) > 0, len(after.Status.LoadBalancer.Ingress) > 0
		return had != has && (row.taken || row.made != nil && row.made.status != nil && len(row.made.status.Ingress) > 0 != has)
	}
	if was != is || is == provide && (len(changes(before, after)) > 0 || addressed()) {
		kit.Add(q, uidKey(after), queuePriority(after, is, row.state))
	}
}

// nodes takes notice of changes of the set of nodes.
func (w watcher) nodes() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(context.Context, event.TypedCreateEvent[*corev1.Node], kit.Queue) { w.targets.note(false) },
		DeleteFunc: func(context.Context, event.TypedDeleteEvent[*corev1.Node], kit.Queue) { w.targets.note(true) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], _ kit.Queue) {
			w.targets.updated(e.ObjectOld, e.ObjectNew)
		},
	}
}

func keyOf(service *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}

// uidKey is the key of a Service in the queue: namespace/name/UID. No name has a slash. Services that have a name one after the other have keys of
// their own.
func uidKey(service *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name + "/" + string(service.UID)}
}

// nameOfWriter names who writes to the cloud, for others that wait.
func nameOfWriter(key types.NamespacedName) string {
	if key == writelimit.Orphans {
		return "a load balancer without a Service"
	}
	return nameOf(key).String()
}

// nameOf returns the name in a key.
func nameOf(key types.NamespacedName) types.NamespacedName {
	key.Name, _, _ = strings.Cut(key.Name, "/")
	return key
}
