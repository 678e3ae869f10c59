package route

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// everything is the only item of the queue: a pass is over all nodes and all routes.
var everything = reconcile.Request{}

// watcher turns the watch of nodes into passes.
type watcher struct {
	pacer *pacer
	rules ownership.Rules
	queue kit.Enqueuer
}

// capture is a source that keeps the queue for poke, and asks for the first pass, which comes whether there are nodes or not.
func (w *watcher) capture(ctx context.Context, q kit.Queue) error {
	q.Add(everything)
	return w.queue.Capture(ctx, q)
}

// poke asks for a pass soon.
func (w *watcher) poke() {
	if q := w.queue.Queue(); q != nil {
		w.enqueue(q)
	}
}

func (w *watcher) enqueue(q kit.Queue) { q.AddAfter(everything, w.pacer.noted(time.Now())) }

func (w *watcher) handler() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q kit.Queue) {
			if w.routable(e.Object) {
				w.enqueue(q)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q kit.Queue) {
			if w.matters(e.ObjectOld, e.ObjectNew) {
				w.enqueue(q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], q kit.Queue) {
			if len(e.Object.Spec.PodCIDRs) > 0 {
				w.enqueue(q)
			}
		},
	}
}

// routable reports whether there may be routes to make for a node.
func (w *watcher) routable(node *corev1.Node) bool {
	return len(node.Spec.PodCIDRs) > 0 && !awaitsProviderID(node) && w.rules.Decide(node, nil).Owner != ownership.Foreign
}

// matters reports whether a change of a node can change what there is to do. Heartbeats do not, and they are nearly all of the
// changes; neither do our own writes of the condition.
func (w *watcher) matters(before, after *corev1.Node) bool {
	if sameForRoutes(before, after) {
		return false
	}
	was, is := w.routable(before), w.routable(after)
	return was != is || is && (before.UID != after.UID || before.Spec.ProviderID != after.Spec.ProviderID ||
		!slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) || !slices.Equal(before.Status.Addresses, after.Status.Addresses))
}

// sameForRoutes reports whether two versions of a node have all in common that could matter. It costs a heartbeat little.
func sameForRoutes(before, after *corev1.Node) bool {
	return before.UID == after.UID && before.Spec.ProviderID == after.Spec.ProviderID &&
		slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) && slices.Equal(before.Status.Addresses, after.Status.Addresses) &&
		ownership.Uninitialized(before) == ownership.Uninitialized(after) &&
		before.Annotations[ownership.AnnotationIgnore] == after.Annotations[ownership.AnnotationIgnore] &&
		before.Annotations[ownership.AnnotationProven] == after.Annotations[ownership.AnnotationProven] &&
		maps.Equal(before.Labels, after.Labels) // a selector may ask for any
}
