package node

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/internal/ownership"
)

// refresher compares all initialised nodes with the cloud, once per interval, and queues those that differ. It writes nothing
// itself, and what it queues is behind every new node.
type refresher struct {
	interval   time.Duration
	reader     client.Reader
	inventory  *inventory.Inventory
	reconciler *reconciler
	metrics    *metrics
	log        logr.Logger
	queued     chan queue // receives the controller's queue once there is one
}

// capture is a source of the controller, by which its queue becomes known.
func (r *refresher) capture(_ context.Context, q queue) error {
	select {
	case r.queued <- q:
	default: // a second start of the sources brings the same queue
	}
	return nil
}

// run refreshes until ctx ends, from its beginning on.
func (r *refresher) run(ctx context.Context) {
	var q queue
	select {
	case q = <-r.queued:
	case <-ctx.Done():
		return
	}
	ticker := time.NewTicker(r.interval)
	defer ticker.Stop()
	failing := false
	for {
		err := r.pass(ctx, q)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			r.log.Error(err, "Could not compare all nodes with the cloud; trying again", "interval", r.interval)
		case err == nil && failing:
			r.log.Info("All nodes could be compared with the cloud again")
		}
		failing = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// pass compares all initialised nodes with the cloud. The error is that of the first node that could not be compared; the
// others were.
func (r *refresher) pass(ctx context.Context, q queue) error {
	start := time.Now()
	var list corev1.NodeList
	if err := r.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // the nodes are only read
		return fmt.Errorf("listing nodes: %w", err)
	}
	var nodes []*corev1.Node
	for i := range list.Items {
		if r.concerns(&list.Items[i]) {
			nodes = append(nodes, &list.Items[i])
		}
	}
	var first error
	// An answer from before this pass would be one interval late.
	r.inventory.LookupEach(cloud.WithPriority(ctx, cloud.PriorityRefresh), nodes, 0, func(node *corev1.Node, observation inventory.Observation, err error) {
		if err != nil {
			r.metrics.refreshFailures.Inc()
			if first == nil {
				first = fmt.Errorf("looking up node %q: %w", node.Name, err)
			}
			return
		}
		if r.reconciler.differs(node, observation) {
			add(q, node.Name, priorityRefresh)
		}
	})
	r.metrics.refreshDuration.Observe(time.Since(start).Seconds())
	return first
}

// concerns reports whether a node is one that the refresh may ask for. Nodes that wait for their initialisation are in the
// queue on their own account.
func (r *refresher) concerns(node *corev1.Node) bool {
	return node.DeletionTimestamp.IsZero() && !ownership.Uninitialized(node) &&
		r.reconciler.judge(node).Verdict != ownership.Foreign
}
