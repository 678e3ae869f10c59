package route

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	nodeutil "k8s.io/component-helpers/node/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/metric"
	"github.com/mooring-ccm/mooring/internal/names"
)

// The reasons of the node condition NetworkUnavailable, as in the reference: False and True.
const (
	ReasonRouteCreated   = "RouteCreated"
	ReasonNoRouteCreated = "NoRouteCreated"
)

const (
	// fieldManager names us in the managed fields of nodes.
	fieldManager = "node-route-controller"
	// conditionWrites is how many nodes are written at once: enough for the API server to be what a mass join waits for.
	conditionWrites = 64
)

// conditionWriter writes the condition NetworkUnavailable of nodes, where it is not what it should be.
type conditionWriter struct {
	client client.Client

	mu   sync.Mutex
	rows map[types.UID]conditionRow
}

// conditionRow is what is remembered of the condition of a node.
type conditionRow struct {
	// written is what was written last; the node's copy in the cache may still be older.
	written bool
	write   kit.OwnWrite
	// refused is what could not be written. Each node has a pause of its own: what the API server refuses of one delays no other.
	refused  bool
	failures kit.Row
}

func newConditionWriter(client client.Client) *conditionWriter {
	return &conditionWriter{client: client, rows: map[types.UID]conditionRow{}}
}

// routedNode is a node of ours and whether all its routes are there.
type routedNode struct {
	node   *corev1.Node
	routed bool
}

// write brings the conditions of nodes up to date, but for those whose pause after a failure has not passed. A node that has been deleted
// meanwhile needs none.
func (c *conditionWriter) write(ctx context.Context, nodes []routedNode, now time.Time) error {
	c.forget(nodes, now)
	var group errgroup.Group
	group.SetLimit(conditionWrites)
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		if c.due(n, now) {
			group.Go(func() error {
				errs[i] = c.bring(ctx, n, now)
				return nil
			})
		}
	}
	_ = group.Wait() // the errors are in errs: all of them, not only the first
	return errors.Join(errs...)
}

// due reports whether a node's condition is to be written: it is not what it should be, and that did not fail a moment ago. As in the reference,
// the reason counts: a network plugin that declared the network available does not know about routes.
func (c *conditionWriter) due(n routedNode, now time.Time) bool {
	c.mu.Lock()
	row := c.rows[n.node.UID]
	c.mu.Unlock()
	says := hasCondition(n)
	if row.write.Hides(n.node.ResourceVersion, now) {
		says = row.written == n.routed
	}
	return !says && (row.refused != n.routed || !row.failures.Rests(now))
}

// bring writes the condition of one node, and notes what became of that.
func (c *conditionWriter) bring(ctx context.Context, n routedNode, now time.Time) error {
	version, err := c.patch(ctx, n, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	row := c.rows[n.node.UID]
	switch {
	case err != nil:
		row.refused, row.failures = n.routed, row.failures.Failed(time.Now(), backoff(), err)
	case version != "": // a dry run makes none
		row = conditionRow{written: n.routed, write: kit.OwnWrite{Version: version, At: time.Now()}}
	default:
		row.failures = kit.Row{}
	}
	c.rows[n.node.UID] = row
	return err
}

// next returns when the first of the conditions may be tried again that could not be written, zero if there are none.
func (c *conditionWriter) next(now time.Time) (first time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, row := range c.rows {
		if row.failures.Rests(now) {
			first = earlier(first, row.failures.Until)
		}
	}
	return first
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// hasCondition reports whether the node's copy in the cache has the condition that it should have.
func hasCondition(n routedNode) bool {
	status, reason, _ := networkUnavailable(n.routed)
	current := networkCondition(n.node)
	return current != nil && current.Status == status && current.Reason == reason
}

func networkUnavailable(routed bool) (status corev1.ConditionStatus, reason, message string) {
	if routed {
		return corev1.ConditionFalse, ReasonRouteCreated, "The cloud has routes to all pod CIDRs of the node"
	}
	return corev1.ConditionTrue, ReasonNoRouteCreated, "The cloud lacks a route to a pod CIDR of the node; the node's events say why"
}

func networkCondition(node *corev1.Node) *corev1.NodeCondition {
	_, condition := nodeutil.GetNodeCondition(&node.Status, corev1.NodeNetworkUnavailable)
	return condition
}

// conditionPatch has the UID, which makes the API server refuse it for another node of the same name.
func conditionPatch(n routedNode, now time.Time) client.Patch {
	status, reason, message := networkUnavailable(n.routed)
	condition := map[string]any{
		"type": corev1.NodeNetworkUnavailable, "status": status, "reason": reason, "message": message,
		"lastHeartbeatTime": metav1.NewTime(now),
	}
	if current := networkCondition(n.node); current == nil || current.Status != status {
		condition["lastTransitionTime"] = metav1.NewTime(now)
	}
	return kit.ConditionPatch{Metadata: map[string]any{"uid": n.node.UID}, Condition: condition}
}

// patch writes a condition, and returns the version that the node has by that; empty if there is none.
func (c *conditionWriter) patch(ctx context.Context, n routedNode, now time.Time) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	patched := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.node.Name}}
	err = c.client.Status().Patch(ctx, patched, conditionPatch(n, now), client.FieldOwner(fieldManager))
	switch outcome := kit.OutcomeOf(err); {
	case outcome == kit.Outdated && apierrors.IsInvalid(err):
		return "", nil // another node has the name now: its own event starts a pass. None follows a conflict with another writer, or a proxy's 404.
	case err != nil:
		return "", fmt.Errorf("writing the condition NetworkUnavailable of node %q: %w", n.node.Name, err)
	}
	_, reason, _ := networkUnavailable(n.routed)
	log.FromContext(ctx).Info("Wrote the condition NetworkUnavailable", "node", n.node.Name, "reason", reason)
	return patched.ResourceVersion, nil
}

// forget drops the rows of nodes that are gone, and of those whose copy in the cache shows what was written and that nothing failed.
func (c *conditionWriter) forget(nodes []routedNode, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := make(map[types.UID]conditionRow, len(c.rows))
	for _, n := range nodes {
		row, found := c.rows[n.node.UID]
		if found && (row.write.Hides(n.node.ResourceVersion, now) || row.failures.Count > 0 && !hasCondition(n)) {
			kept[n.node.UID] = row
		}
	}
	c.rows = kept
}

// The reasons of the events on a Node; all but the first are warnings.
const (
	// ReasonWaitingForCloud says that the call for the node's route waits to be let in, and for what.
	ReasonWaitingForCloud = "WaitingForCloud"
	// ReasonFailedToCreateRoute says that a route to a pod CIDR of the node could not be made. It is the reference's event.
	ReasonFailedToCreateRoute = "FailedToCreateRoute"
	// ReasonPodCIDRConflict says that another node has the pod CIDR, and the route to it.
	ReasonPodCIDRConflict = string(podCIDRConflict)
	// ReasonRouteTableFull says that there is no room for the node's route.
	ReasonRouteTableFull = string(routeTableFull)
	// ReasonRouteTableNearlyFull says that the node's route was one of the last for which there is room.
	ReasonRouteTableNearlyFull = string(routeTableNearlyFull)
	// ReasonPodCIDROutsideClusterCIDRs says that the node's route will stay when the node is gone.
	ReasonPodCIDROutsideClusterCIDRs = string(outsideClusterCIDRs)
)

// events writes events on nodes, each once in a while for as long as what it says goes on.
type events struct {
	recorder record.EventRecorder
	limiter  kit.EventLimiter
}

// failed records on a node that its route could not be made. A route that could no longer be deleted is no node's concern.
func (e *events) failed(action action, err error) {
	if action.want != nil {
		e.event(*action.want, "", corev1.EventTypeWarning, ReasonFailedToCreateRoute, fmt.Sprintf("Could not make the route to %s: %v", action.want.cidr, err))
	}
}

// waiting records on a node what the call for its route waits for.
func (e *events) waiting(action action, reason string) {
	if action.want != nil {
		e.event(*action.want, "", corev1.EventTypeNormal, ReasonWaitingForCloud,
			fmt.Sprintf("Waiting to %s the route to %s: %s", action.kind, action.want.cidr, reason))
	}
}

// record records the notices of a plan.
func (e *events) record(notices []notice) {
	for _, notice := range notices {
		e.event(notice.want, notice.want.cidr, corev1.EventTypeWarning, string(notice.problem), notice.message)
	}
}

// event records an event about a want, unless there was one for the same reason and the same part of the node a short while ago.
func (e *events) event(w want, part, kind, reason, message string) {
	if e.limiter.Allow(w.uid, reason+part, time.Now()) {
		e.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: string(w.node), UID: w.uid}, kind, reason, kit.EventMessage(message))
	}
}

// metrics are the reference controller's counter under its name, and ours.
type metrics struct {
	passes     *prometheus.CounterVec
	operations *prometheus.CounterVec
	routes     prometheus.Gauge
	limit      prometheus.Gauge
	missing    prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := metric.With(registerer)
	return &metrics{
		passes: factory.NewCounterVec("route_controller_route_sync_total",
			"Comparisons of all routes with all nodes, by outcome (changed, noop, error) and trigger (node_change, periodic).", "outcome", "trigger"),
		operations: factory.NewCounterVec("mooring_route_operations_total",
			"Changes of routes in the cloud, by operation (create, replace, recreate, remove) and result (success, error).", "operation", "result"),
		routes: factory.NewGauge(names.MetricRoutesListed,
			"Routes of the cluster in the cloud, when they were last listed."),
		limit: factory.NewGauge(names.MetricRouteLimit,
			"How many routes the cloud takes for the cluster, as the provider declares it; 0 if it does not."),
		missing: factory.NewGauge(names.MetricRoutesMissing,
			"Pod CIDRs of nodes of ours without a route that delivers to them, after the last comparison."),
	}
}

// The reference's values of the label trigger.
const (
	triggerPeriodic   = "periodic"
	triggerNodeChange = "node_change"
)

// compared counts a comparison as the reference does: an operation that failed is none that did.
func (m *metrics) compared(trigger string, ended result) {
	outcome := "noop"
	switch {
	case ended.blocked != nil:
		outcome = "error"
	case ended.changed:
		outcome = "changed"
	}
	m.passes.WithLabelValues(outcome, trigger).Inc()
}

func (m *metrics) performed(kind kind, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.operations.WithLabelValues(string(kind), result).Inc()
}
