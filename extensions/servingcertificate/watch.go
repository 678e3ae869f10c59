package servingcertificate

import (
	"context"
	"maps"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// The places in the queue. Requests that have just come pass the ones that have waited in vain.
const (
	priorityNew   = 100
	priorityAgain = 0
)

// watcher turns the watches into work. A place in the queue belongs to a requester, by the name of its user: all its requests are looked at
// together, and by one worker at a time.
type watcher struct{ state *state }

func (w watcher) requests() handler.TypedEventHandler[*certificatesv1.CertificateSigningRequest, reconcile.Request] {
	enqueue := func(q kit.Queue, object *certificatesv1.CertificateSigningRequest, priority int) {
		if object.Spec.SignerName == certificatesv1.KubeletServingSignerName {
			kit.Add(q, types.NamespacedName{Name: object.Spec.Username}, priority)
		}
	}
	return handler.TypedFuncs[*certificatesv1.CertificateSigningRequest, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*certificatesv1.CertificateSigningRequest], q kit.Queue) {
			if pending(e.Object) {
				enqueue(q, e.Object, priorityNew)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*certificatesv1.CertificateSigningRequest], q kit.Queue) {
			if pending(e.ObjectOld) != pending(e.ObjectNew) {
				enqueue(q, e.ObjectNew, priorityAgain)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*certificatesv1.CertificateSigningRequest], q kit.Queue) {
			enqueue(q, e.Object, priorityAgain)
		},
	}
}

func (w watcher) nodes() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q kit.Queue) { w.changed(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q kit.Queue) {
			if matters(e.ObjectOld, e.ObjectNew) {
				w.changed(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], q kit.Queue) { w.changed(q, e.Object) },
	}
}

// changed has the requests of a node looked at again, with a new answer of the cloud, if there are any.
func (w watcher) changed(q kit.Queue, node *corev1.Node) {
	requester := nodeUserPrefix + node.Name
	if w.state.again(requester, time.Now()) {
		kit.Add(q, types.NamespacedName{Name: requester}, priorityNew)
	}
}

// matters reports whether a change of a node can change what its requests are answered. Addresses are written by the node controller when
// the cloud has learned of them; what is written there is not believed.
func matters(before, after *corev1.Node) bool {
	return before.UID != after.UID || before.Spec.ProviderID != after.Spec.ProviderID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!slices.Equal(before.Status.Addresses, after.Status.Addresses) || !maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations)
}
