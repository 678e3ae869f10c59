// Package route keeps one route in the cloud for every pod CIDR of every node of ours, and no other within the cluster's
// CIDRs.
//
// A pass compares the complete list of the cluster's routes with all nodes (desired.go, plan.go), leaves out what is under
// way, has just been done or failed a moment ago (state.go), and carries out the rest: stale routes first, then
// replacements, then new routes (apply.go). schedule.go says when the next pass is due: soon after nodes changed, when a failed
// operation may be tried again, and now and then in any case.
package route

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/sleep"
	"github.com/mooring-ccm/mooring/provider"
)

// Name is the controller's name, as in the reference.
const Name = "node-route-controller"

const (
	// DefaultPeriod is the reference's --route-reconciliation-period.
	DefaultPeriod = 10 * time.Second
	// DefaultWrites is how many changes of routes the reference makes at once: maxConcurrentRouteOperations of its controller.
	DefaultWrites = 200
)

// Options are what the controller works with. Client, Live, Cache, Recorder, Cloud and ClusterCIDRs are required.
type Options struct {
	// Client reads from Cache and writes with the controller's identity.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// Cache delivers the watch of nodes.
	Cache cache.Cache
	// Recorder records events on nodes.
	Recorder record.EventRecorder
	// Cloud is asked for its routes when the controller starts, and not before.
	Cloud cloudprovider.Interface
	// Owners knows which nodes are ours.
	Owners ownership.Rules
	// ClusterName is what the provider keeps the routes of clusters apart by.
	ClusterName string
	// ClusterCIDRs are the ranges in which unwanted routes are removed.
	ClusterCIDRs []netip.Prefix
	// Period is how soon after a change routes are compared again, and the average pause between passes while nodes keep
	// changing. Zero: DefaultPeriod.
	Period time.Duration
	// Watching is the pause after any pass, where only changes of nodes and failures are a reason for one. Zero: passes come in any case, see
	// idlePeriods.
	Watching time.Duration
	// Writes bounds the concurrent calls that change routes, capped by the limit of the provider. Zero: DefaultWrites.
	Writes int
	// Patience is how long a pass waits for operations when none of them ends: a node that joins meanwhile waits as long for its route. Where each
	// operation takes longer, a pass that goes on costs a listing per period. Zero: half of DefaultPeriod.
	Patience time.Duration
	// Lease returns the object of events about all routes. Nil: there are none.
	Lease func(context.Context) *corev1.ObjectReference
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Logger is what the controller logs to.
	Logger logr.Logger
}

// Controller keeps the routes to nodes. It is a controller-runtime Runnable that needs leader election and warms up without.
type Controller struct {
	*kit.Controller
	applier  *applier
	cloud    cloudprovider.Interface
	recorder record.EventRecorder
	lease    func(context.Context) *corev1.ObjectReference
	log      logr.Logger
}

// New returns a controller that has not started yet.
func New(options Options) (*Controller, error) {
	options.Period, options.Patience = cmp.Or(options.Period, DefaultPeriod), cmp.Or(options.Patience, DefaultPeriod/2)
	options.Writes = cmp.Or(options.Writes, DefaultWrites)
	log := options.Logger.WithValues("controller", Name)
	watcher := &watcher{scheduler: newScheduler(options.Period, options.Watching), rules: options.Owners}
	reconciler := newReconciler(options, watcher)
	inner, err := kit.NewController(Name, kit.ControllerOptions{
		Reconciler: reconciler, RateLimiter: reconciler.scheduler, Logger: log,
		Workers: 1, // a pass is over all nodes
		Sources: []source.Source{source.Kind(options.Cache, &corev1.Node{}, watcher.handler()), source.Func(watcher.capture)},
	})
	if err != nil {
		return nil, err
	}
	return &Controller{
		Controller: inner, applier: reconciler.applier, cloud: options.Cloud, recorder: options.Recorder, lease: options.Lease, log: log,
	}, nil
}

func newReconciler(options Options, watcher *watcher) *reconciler {
	capabilities := provider.CapabilitiesOf(options.Cloud)
	writes := options.Writes
	if capabilities.RouteWrites > 0 {
		writes = min(writes, capabilities.RouteWrites)
	}
	metrics := newMetrics(options.Registerer)
	metrics.limit.Set(float64(capabilities.MaxRoutes))
	state := newState(options.Period)
	events := &events{recorder: options.Recorder}
	return &reconciler{
		reader: options.Client, clusterCIDRs: options.ClusterCIDRs,
		abilities:    abilities{replaces: capabilities.ReplaceRoute != nil, maxRoutes: capabilities.MaxRoutes},
		owners:       options.Owners,
		absenceCheck: absenceCheck{live: options.Live}, state: state, scheduler: watcher.scheduler,
		applier: &applier{
			replace: capabilities.ReplaceRoute, change: capabilities.ChangeRoutes, batch: capabilities.RouteBatch,
			clusterName: options.ClusterName, places: semaphore.NewWeighted(int64(writes)), patience: options.Patience,
			state: state, metrics: metrics, events: events, late: watcher.trigger,
		},
		conditions: newConditionWriter(options.Client), events: events, metrics: metrics,
	}
}

// Start works until ctx ends, and returns when all calls that change routes have ended.
func (c *Controller) Start(ctx context.Context) error {
	routes, supported := c.awaitRoutes(ctx)
	if !supported {
		return nil
	}
	c.applier.routes = routes
	defer c.applier.running.Wait()
	return c.Controller.Start(ctx)
}

// ReasonRoutesNotSupported says, on the Lease, that the provider has no routes, or could not say that it has.
const ReasonRoutesNotSupported = "RoutesNotSupported"

// awaitRoutes asks the provider for its routes until it has some: one that asks its cloud whether there are any may have got no answer.
// It returns false when ctx ends before. The reference asks once.
func (c *Controller) awaitRoutes(ctx context.Context) (cloudprovider.Routes, bool) {
	for failures := 0; ; failures++ {
		if routes, supported := c.cloud.Routes(); supported && routes != nil {
			return routes, true
		}
		if failures == 0 {
			c.sayNotSupported(ctx)
		}
		if !sleep.For(ctx, backoff().After(failures, nil)) {
			return nil, false
		}
	}
}

func (c *Controller) sayNotSupported(ctx context.Context) {
	c.log.Info("Not configuring routes; asking the cloud provider for them again later", "reason",
		"the cloud provider does not support routes, or could not say so", "provider", c.cloud.ProviderName())
	if c.lease != nil {
		c.recorder.Eventf(c.lease(ctx), corev1.EventTypeWarning, ReasonRoutesNotSupported, "--configure-cloud-routes and --cluster-cidr are "+
			"set, but the cloud provider %s has no routes, or could not say that it has. Set --configure-cloud-routes=false if it has none; Mooring asks it again", c.cloud.ProviderName())
	}
}
