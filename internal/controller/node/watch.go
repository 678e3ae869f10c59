package node

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// The places in the queue. A new node passes everything else.
const (
	priorityNew     = 100
	priorityRetry   = 0
	priorityRefresh = handler.LowPriority
)

// watcher turns the watch of nodes into work.
type watcher struct {
	decide  func(*corev1.Node) ownership.Decision
	memory  *memory
	metrics *metrics
	traces  *traces
}

func (w watcher) handler() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q kit.Queue) {
			w.traces.observe(e.Object, w.decide, time.Now())
			w.enqueue(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q kit.Queue) {
			w.traces.observe(e.ObjectNew, w.decide, time.Now())
			if matters(e.ObjectOld, e.ObjectNew) {
				w.enqueue(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], _ kit.Queue) {
			w.memory.forget(e.Object.Name)
			w.traces.forget(e.Object.Name, "the node was deleted")
			w.metrics.count(e.Object.Name, false)
		},
	}
}

func (w watcher) enqueue(q kit.Queue, node *corev1.Node) {
	waits := ownership.Uninitialized(node) && w.decide(node).Owner != ownership.Foreign
	w.metrics.count(node.Name, waits)
	priority := priorityRefresh
	if waits {
		w.memory.changed(node, time.Now())
		priority = priorityNew
	}
	kit.Add(q, types.NamespacedName{Name: node.Name}, priority)
}

// matters reports whether a change of a node can change what there is to do. Heartbeats do not, and they are nearly all of
// the changes: a cluster of 5,000 nodes has hundreds a second.
func matters(before, after *corev1.Node) bool {
	if before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Status.Addresses, after.Status.Addresses) {
		return true
	}
	if ownership.Uninitialized(after) {
		// What identifies the instance is the plugin's business until the node is initialized.
		return !maps.Equal(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(&before.Spec, &after.Spec) ||
			!equality.Semantic.DeepEqual(&before.Status.NodeInfo, &after.Status.NodeInfo)
	}
	for _, key := range []string{
		cloudproviderapi.AnnotationAlphaProvidedIPAddr, ownership.AnnotationIgnore, ownership.AnnotationProven, annotationCloudLabels,
	} {
		if before.Annotations[key] != after.Annotations[key] {
			return true
		}
	}
	return before.Spec.ProviderID != after.Spec.ProviderID || ownership.Uninitialized(before)
}
