package service

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// watcher turns the watches of Services and nodes into work.
type watcher struct {
	classes Classes
	memory  *memory
	targets *targets
}

// services queues what concerns us: Services that shall have or lose a load balancer, and every change of what it follows.
func (w watcher) services() handler.TypedEventHandler[*corev1.Service, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Service, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Service], q kit.Queue) {
			if intent := w.intent(e.Object); intent != leave {
				kit.Add(q, keyOf(e.Object), w.priority(e.Object, intent))
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Service], q kit.Queue) {
			if intent, matters := w.matters(e.ObjectOld, e.ObjectNew); matters {
				kit.Add(q, keyOf(e.ObjectNew), w.priority(e.ObjectNew, intent))
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Service], q kit.Queue) {
			if key := keyOf(e.Object); w.memory.knows(key) {
				kit.Add(q, key, priorityRemove)
			}
		},
	}
}

func (w watcher) intent(service *corev1.Service) intent {
	known, _ := w.memory.recall(keyOf(service))
	return intentFor(service, w.classes, known.knows(service))
}

// matters reports what a Service is for now, and whether a change of it makes a difference to us. Our own writes do not; they
// would else cut short the pause after a failure.
func (w watcher) matters(before, after *corev1.Service) (intent, bool) {
	was, is := w.intent(before), w.intent(after)
	switch {
	case is == leave:
		return is, was != leave
	case was != is || before.UID != after.UID:
		return is, true
	case is == provide && hasFinalizer(before) && !hasFinalizer(after):
		return is, true
	default:
		return is, is == provide && (len(inputsOf(after).changes(inputsOf(before))) > 0 || w.filledIn(before, after))
	}
}

// filledIn reports whether somebody else has changed the addresses of a Service whose plugin gave it none.
func (w watcher) filledIn(before, after *corev1.Service) bool {
	known, _ := w.memory.recall(keyOf(after))
	return known.made != nil && known.made.ensured && known.made.status != nil && len(known.made.status.Ingress) == 0 &&
		!sameIngress(before.Status.LoadBalancer.Ingress, after.Status.LoadBalancer.Ingress)
}

func (w watcher) priority(service *corev1.Service, intent intent) int {
	known, _ := w.memory.recall(keyOf(service))
	return queuePriority(service, intent, known)
}

// queuePriority is where in the queue a Service belongs, which may be gone.
func queuePriority(service *corev1.Service, intent intent, known remembered) int {
	switch {
	case intent != provide:
		return priorityRemove
	case len(service.Status.LoadBalancer.Ingress) == 0:
		return priorityNew
	case known.made == nil:
		return priorityRefresh
	default:
		return priorityChange
	}
}

// nodes takes notice of changes of the set of nodes.
func (w watcher) nodes() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(context.Context, event.TypedCreateEvent[*corev1.Node], kit.Queue) { w.targets.note() },
		DeleteFunc: func(context.Context, event.TypedDeleteEvent[*corev1.Node], kit.Queue) { w.targets.note() },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], _ kit.Queue) {
			if w.targets.matters(e.ObjectOld, e.ObjectNew) {
				w.targets.note()
			}
		},
	}
}

func keyOf(service *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}
