package nodegroups

import (
	"cmp"
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

// Name is the name of the controller, of which the server of the autoscaler is the other part.
const Name = "cluster-autoscaler-provider"

// DefaultBalancerWait is how long load balancers are waited for.
const DefaultBalancerWait = time.Minute

// workers is how many nodes are worked on at once. None of them waits for the cloud.
const workers = 8

// Deleter deletes instances. It is a controller-runtime Runnable that needs leader election and warms up without.
type Deleter struct {
	*kit.Controller
	beside *beside
	log    logr.Logger
}

// New returns a controller that has not started yet. The cache of the environment's Manager has the indexes of package deletion. Ours reports whether
// a node is one that this cloud controller manager looks after; wait is how long load balancers may take to let go of a node, zero for
// DefaultBalancerWait.
func New(environment ccm.Environment, capabilities provider.Capabilities, ours func(*corev1.Node) bool, sealer deletion.Sealer, wait time.Duration) (*Deleter, error) {
	var list listBalancers // nil: the provider has no such list
	if capabilities.ListLoadBalancers != nil {
		list = func(ctx context.Context) ([]provider.LoadBalancer, error) {
			return capabilities.ListLoadBalancers(ctx, environment.ClusterName)
		}
	}
	log := environment.Logger.WithValues("controller", Name)
	enqueuer, beside, state := &kit.Enqueuer{}, &beside{}, newState()
	again := func(node string) { enqueuer.Add(types.NamespacedName{Name: node}, 0) }
	reconciler := &reconciler{
		cached: environment.Client, live: environment.Manager.GetAPIReader(), client: environment.Client, recorder: environment.Recorder,
		groups: capabilities.NodeGroups, ours: ours, sealer: sealer, balancers: newBalancers(environment.Client, list, beside, again),
		wait: cmp.Or(wait, DefaultBalancerWait), state: state, beside: beside, again: again,
		metrics: newMetrics(environment.Registerer, state.count), limiter: &kit.EventLimiter{},
	}
	inner, err := kit.NewController(Name, kit.ControllerOptions{
		Reconciler: reconciler, Workers: workers, Logger: log, RateLimiter: backoff.RateLimiter(),
		LoggerFor: func(node types.NamespacedName) logr.Logger { return log.WithValues("node", node.Name) },
		Sources:   []source.Source{source.Kind(environment.Manager.GetCache(), &corev1.Node{}, nodes()), source.Func(enqueuer.Capture)},
	})
	if err != nil {
		return nil, err
	}
	return &Deleter{Controller: inner, beside: beside, log: log}, nil
}

// Start works until ctx ends, and returns when the cloud is no longer asked.
func (c *Deleter) Start(ctx context.Context) error {
	asking, cancel := context.WithCancel(admission.WithPriority(logr.NewContext(ctx, c.log), admission.PriorityDeletion))
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
