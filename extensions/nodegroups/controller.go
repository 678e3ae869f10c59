package nodegroups

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/required"
	"github.com/mooring-ccm/mooring/provider"
)

// Name is the name of the controller, of which the server of the autoscaler is the other part.
const Name = "cluster-autoscaler-provider"

// DefaultBalancerWait is how long load balancers are waited for.
const DefaultBalancerWait = time.Minute

// workers is how many nodes are worked on at once. None of them waits for the cloud.
const workers = 8

// Options are what the controller works with. All but BalancerWait, ListBalancers, Registerer and Logger are required.
type Options struct {
	// Client reads from Cache, which has the indexes of package deletion, and writes with the controller's identity. Live reads from the API
	// server.
	Client client.Client
	Live   client.Reader
	Cache  cache.Cache
	// Recorder records events on nodes.
	Recorder record.EventRecorder
	// Groups are the provider's, by the client of the cloud.
	Groups provider.NodeGroups
	// Ours reports whether a node is one that this cloud controller manager looks after.
	Ours func(*corev1.Node) bool
	// ListBalancers lists the load balancers of this cluster. Nil: there is no such list.
	ListBalancers func(ctx context.Context) ([]provider.LoadBalancer, error)
	// BalancerWait is how long load balancers may take to let go of a node. Zero: DefaultBalancerWait.
	BalancerWait time.Duration
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Logger is what the controller logs to.
	Logger logr.Logger
}

// Controller deletes instances. It is a controller-runtime Runnable that needs leader election and warms up without.
type Controller struct {
	*kit.Controller
	beside *beside
	log    logr.Logger
}

// New returns a controller that has not started yet. All options that are missing are named in one error.
func New(options Options) (*Controller, error) {
	if err := required.Check("node group controller",
		required.Option{Name: "Client", Missing: options.Client == nil}, required.Option{Name: "Live", Missing: options.Live == nil},
		required.Option{Name: "Cache", Missing: options.Cache == nil}, required.Option{Name: "Recorder", Missing: options.Recorder == nil},
		required.Option{Name: "Groups", Missing: options.Groups == nil}, required.Option{Name: "Ours", Missing: options.Ours == nil},
	); err != nil {
		return nil, err
	}
	if options.BalancerWait <= 0 {
		options.BalancerWait = DefaultBalancerWait
	}
	log := options.Logger.WithValues("controller", Name)
	enqueuer, beside, state := &kit.Enqueuer{}, &beside{}, newState()
	again := func(node string) { enqueuer.Add(types.NamespacedName{Name: node}, 0) }
	reconciler := &reconciler{
		cached: options.Client, live: options.Live, client: options.Client, recorder: options.Recorder, groups: options.Groups, ours: options.Ours,
		balancers: newBalancers(options.Client, options.ListBalancers, beside, again), wait: options.BalancerWait, state: state, beside: beside, again: again,
		metrics: newMetrics(options.Registerer, state.count), limiter: &kit.EventLimiter{},
	}
	inner, err := kit.NewController(Name, kit.ControllerOptions{
		Reconciler: reconciler, Workers: workers, Logger: log, RateLimiter: backoff.RateLimiter(),
		LoggerFor: func(node types.NamespacedName) logr.Logger { return log.WithValues("node", node.Name) },
		Sources:   []source.Source{source.Kind(options.Cache, &corev1.Node{}, nodes()), source.Func(enqueuer.Capture)},
	})
	if err != nil {
		return nil, err
	}
	return &Controller{Controller: inner, beside: beside, log: log}, nil
}

// Start works until ctx ends, and returns when the cloud is not asked any more.
func (c *Controller) Start(ctx context.Context) error {
	asking, cancel := context.WithCancel(cloud.WithPriority(logr.NewContext(ctx, c.log), cloud.PriorityDeletion))
	c.beside.begin(asking)
	defer c.beside.running.Wait()
	defer cancel()
	return c.Controller.Start(ctx)
}

// nodes has the nodes looked at that have an intent, or had one.
func nodes() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	enqueue := func(q kit.Queue, node *corev1.Node) { kit.Add(q, types.NamespacedName{Name: node.Name}, 0) }
	marked := func(node *corev1.Node) bool { return node.Annotations[deletion.Annotation] != "" }
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q kit.Queue) {
			if marked(e.Object) {
				enqueue(q, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q kit.Queue) {
			before, after := e.ObjectOld, e.ObjectNew
			if before.Annotations[deletion.Annotation] != after.Annotations[deletion.Annotation] ||
				marked(after) && (deletion.Announced(before) != deletion.Announced(after) || before.UID != after.UID) {
				enqueue(q, after)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], q kit.Queue) {
			if marked(e.Object) {
				enqueue(q, e.Object)
			}
		},
	}
}
