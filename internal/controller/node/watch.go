package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/node/pace"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
)

// The places in the queue. A new node passes everything else.
const (
	priorityNew     = 100
	priorityRetry   = 0
	priorityRefresh = handler.LowPriority
)

// watcher turns the watch of nodes into work.
type watcher struct {
	*reconciler
	// single takes in what happens to initialized nodes. Nil: all of them are compared with the cloud at once.
	single *singleRefresher
}

func (w watcher) handler() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q kit.Queue) {
			w.appeared(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q kit.Queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID { // the watch has not seen the one go and the other come
				w.gone(e.ObjectOld)
				w.appeared(q, e.ObjectNew)
				return
			}
			w.changed(q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], _ kit.Queue) {
			w.gone(e.Object)
		},
	}
}

func (w watcher) appeared(q kit.Queue, node *corev1.Node) {
	waits := ownership.Uninitialized(node) && w.owners.Decide(node).Owner != ownership.Foreign
	w.traces.observe(node, waits, time.Now())
	if w.single != nil {
		w.single.consider(node, func(*pace.History) {})
	}
	w.enqueue(q, node, waits)
}

func (w watcher) changed(q kit.Queue, before, after *corev1.Node) {
	decision := w.owners.Decide(after)
	waits := ownership.Uninitialized(after) && decision.Owner != ownership.Foreign
	w.traces.observe(after, waits, time.Now())
	if w.single != nil && w.refreshes(after, decision) {
		w.single.observe(before, after, decision)
	}
	if w.leads.Load() && !maps.Equal(before.Annotations, after.Annotations) && decision.Owner != ownership.Foreign {
		if faults := names.AnnotationFaults("Node", after.Annotations); len(faults) > 0 {
			w.sayFaults(after, faults)
		}
	}
	if matters(before, after) {
		w.enqueue(q, after, waits)
	}
}

func (w watcher) gone(node *corev1.Node) {
	w.forget(node.UID, "the node was deleted")
	if w.single != nil {
		w.single.forget(node.UID)
	}
	w.metrics.count(node.UID, false)
}

func (w watcher) enqueue(q kit.Queue, node *corev1.Node, waits bool) {
	w.metrics.count(node.UID, waits)
	priority := priorityRefresh
	if waits {
		w.state.changed(node, time.Now())
		priority = priorityNew
	}
	kit.Add(q, types.NamespacedName{Name: node.Name}, priority)
}

// matters reports whether a change of a node can change what there is to do. Heartbeats do not, and they are nearly all of
// the changes: a cluster of 5,000 nodes has hundreds a second.
func matters(before, after *corev1.Node) bool {
	if before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Status.Addresses, after.Status.Addresses) {
		return true
	}
	if ownership.Uninitialized(after) {
		// What identifies the instance is the plugin's business until the node is initialized.
		return !maps.Equal(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(&before.Spec, &after.Spec) ||
			!equality.Semantic.DeepEqual(&before.Status.NodeInfo, &after.Status.NodeInfo)
	}
	for _, key := range []string{
		cloudproviderapi.AnnotationAlphaProvidedIPAddr, ownership.AnnotationIgnore, ownership.AnnotationProven,
	} {
		if before.Annotations[key] != after.Annotations[key] {
			return true
		}
	}
	return before.Spec.ProviderID != after.Spec.ProviderID || ownership.Uninitialized(before)
}

// refresher compares all initialized nodes with the cloud, once per interval, and queues nodes that differ. It writes nothing itself, and what it
// queues is behind every new node. It is for plugins that can look up all nodes at once. Other plugins have a singleRefresher, unless an operator
// wants each node looked up in each interval.
type refresher struct {
	*reconciler
	interval time.Duration
	log      logr.Logger

	// failures logs once that nodes cannot be compared.
	failures kit.FailureLog

	// asked has the UIDs of the nodes for which the cloud is being asked.
	asked sync.Map
}

// run refreshes until ctx ends, from its beginning on.
func (r *refresher) run(ctx context.Context) {
	ticker := time.NewTicker(r.interval)
	defer ticker.Stop()
	var passes sync.WaitGroup
	defer passes.Wait()
	for ctx.Err() == nil {
		r.pass(ctx, &passes)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// pass has all initialized nodes compared with the cloud, each when the cloud has answered for it. It does not wait for that: a node
// for which the cloud takes its time is left out of the passes meanwhile, and holds up none of the others.
//
// See ADR 56.
func (r *refresher) pass(ctx context.Context, passes *sync.WaitGroup) {
	start := time.Now()
	var list corev1.NodeList
	if err := r.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // the nodes are only read
		r.note(ctx, fmt.Errorf("listing nodes: %w", err))
		return
	}
	nodes, all := r.open(list.Items)
	if len(nodes) == 0 {
		return
	}
	passes.Go(func() {
		var failure error
		// An answer from before this pass would be one interval late.
		r.inventory.LookupEach(admission.WithPriority(ctx, admission.PriorityRefresh), nodes, 0, func(node *corev1.Node, observation instances.Observation, err error) {
			r.asked.Delete(node.UID)
			if err != nil {
				failure = fmt.Errorf("looking up node %q: %w", node.Name, err)
				r.metrics.refreshFailures.Inc()
				return
			}
			decision := r.owners.Decide(node)
			r.noteAnswer(ctx, node, decision, observation)
			if r.differs(node, decision, observation) {
				r.queue.Add(types.NamespacedName{Name: node.Name}, priorityRefresh)
			}
		})
		r.metrics.refreshDuration.Observe(time.Since(start).Seconds())
		if all || failure != nil {
			r.note(ctx, failure)
		}
	})
}

// open returns those of the nodes that are to be compared with the cloud and for which it is not being asked yet, and whether these are all.
func (r *refresher) open(items []corev1.Node) (nodes []*corev1.Node, all bool) {
	all = true
	for i := range items {
		node := &items[i]
		if !r.refreshes(node, r.owners.Decide(node)) {
			continue
		}
		if _, asked := r.asked.LoadOrStore(node.UID, true); asked {
			all = false
		} else {
			nodes = append(nodes, node)
		}
	}
	return nodes, all
}

// note logs when a pass could not be made, or nodes not be compared, and when that has ended.
func (r *refresher) note(ctx context.Context, err error) {
	r.failures.Note(logr.NewContext(ctx, r.log), "Could not compare all nodes with the cloud; trying again", err, "interval", r.interval)
}
