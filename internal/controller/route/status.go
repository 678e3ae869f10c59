package route

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

	mu sync.Mutex
	// written is what was written to nodes whose copy in the cache may still be older.
	written map[types.UID]statement
	// failed is what could not be written. Each node has a pause of its own: what the API server refuses of one delays no other.
	failed map[types.UID]failedWrite
}

// statement is what a node's condition says since a write of ours.
type statement struct {
	routed bool
	write  kit.OwnWrite
}

// failedWrite is a condition that could not be written, and when to try again.
type failedWrite struct {
	routed bool
	kit.Row
}

func newConditionWriter(client client.Client) *conditionWriter {
	return &conditionWriter{client: client, written: map[types.UID]statement{}, failed: map[types.UID]failedWrite{}}
}

// routedNode is a node of ours and whether all its routes are there.
type routedNode struct {
	node   *corev1.Node
	routed bool
}

// write brings the conditions of nodes up to date, but for those whose pause after a failure has not passed. A node that has been deleted
// meanwhile needs none.
func (c *conditionWriter) write(ctx context.Context, nodes []routedNode, now time.Time) error {
	c.forget(nodes)
	var group errgroup.Group
	group.SetLimit(conditionWrites)
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		if c.says(n) || c.waitsForRetry(n, now) {
			continue
		}
		group.Go(func() error {
			errs[i] = c.bring(ctx, n, now)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs: all of them, not only the first
	return errors.Join(errs...)
}

// bring brings the condition of one node up to date.
func (c *conditionWriter) bring(ctx context.Context, n routedNode, now time.Time) error {
	if c.says(n) || c.waitsForRetry(n, now) {
		return nil
	}
	err := c.patch(ctx, n, now)
	c.ended(n, err)
	return err
}

// ended notes what became of a write.
func (c *conditionWriter) ended(n routedNode, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failed, n.node.UID)
		return
	}
	c.failed[n.node.UID] = failedWrite{n.routed, c.failed[n.node.UID].Failed(time.Now(), backoff(), err)}
}

// waitsForRetry reports whether the same could not be written a moment ago.
func (c *conditionWriter) waitsForRetry(n routedNode, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed, found := c.failed[n.node.UID]
	return found && failed.routed == n.routed && failed.Rests(now)
}

// next returns when the first of the conditions may be tried again that could not be written, zero if there are none.
func (c *conditionWriter) next(now time.Time) (first time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, failed := range c.failed {
		if failed.Rests(now) {
			first = earlier(first, failed.Until)
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

// says reports whether the node's condition is what it should be already. As in the reference, the reason counts: a network
// plugin that declared the network available does not know about routes.
func (c *conditionWriter) says(n routedNode) bool {
	c.mu.Lock()
	written, found := c.written[n.node.UID]
	c.mu.Unlock()
	if found && written.write.Hides(n.node.ResourceVersion, time.Now()) {
		return written.routed == n.routed
	}
	return hasCondition(n)
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

func (c *conditionWriter) patch(ctx context.Context, n routedNode, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	patched := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.node.Name}}
	err := c.client.Status().Patch(ctx, patched, conditionPatch(n, now), client.FieldOwner(fieldManager))
	switch outcome := kit.OutcomeOf(err); {
	case outcome == kit.Outdated && apierrors.IsInvalid(err):
		return nil // another node has the name now: its own event starts a pass. None follows a conflict with another writer, or a proxy's 404.
	case err != nil:
		return fmt.Errorf("writing the condition NetworkUnavailable of node %q: %w", n.node.Name, err)
	}
	if patched.ResourceVersion != "" { // a dry run makes none
		c.mu.Lock()
		c.written[n.node.UID] = statement{n.routed, kit.OwnWrite{Version: patched.ResourceVersion, At: time.Now()}}
		c.mu.Unlock()
	}
	_, reason, _ := networkUnavailable(n.routed)
	log.FromContext(ctx).Info("Wrote the condition NetworkUnavailable", "node", n.node.Name, "reason", reason)
	return nil
}

// forget drops what was written to nodes that are gone, or whose copy in the cache shows it, and what could not be written to nodes that
// are gone or say it by now.
func (c *conditionWriter) forget(nodes []routedNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.written) == 0 && len(c.failed) == 0 {
		return
	}
	kept, failing := make(map[types.UID]statement, len(c.written)), make(map[types.UID]failedWrite, len(c.failed))
	for _, n := range nodes {
		if failed, found := c.failed[n.node.UID]; found && !hasCondition(n) {
			failing[n.node.UID] = failed
		}
		if written, found := c.written[n.node.UID]; found && written.write.Hides(n.node.ResourceVersion, time.Now()) {
			kept[n.node.UID] = written
		}
	}
	c.written, c.failed = kept, failing
}

// progressWriter writes to nodes that their routes are there as soon as the last one is, while routes to other nodes are still being made.
// What it does not get to is left to the end of the pass.
type progressWriter struct {
	conditions *conditionWriter
	nodes      map[types.UID]*corev1.Node
	// missing counts the routes that a node still lacks.
	missing map[types.UID]int
	writing errgroup.Group

	mu   sync.Mutex
	errs []error
}

// newProgressWriter returns a writer for the nodes of a pass, which lack the given wants.
func newProgressWriter(conditions *conditionWriter, members []member, unmet map[key]bool) *progressWriter {
	w := &progressWriter{conditions: conditions, nodes: map[types.UID]*corev1.Node{}, missing: map[types.UID]int{}}
	w.writing.SetLimit(conditionWrites)
	for lacking := range unmet {
		w.missing[lacking.uid]++
	}
	for _, member := range members {
		if member.membership == ours && w.missing[member.node.UID] > 0 {
			w.nodes[member.node.UID] = member.node
		}
	}
	return w
}

// ended takes notice of an operation that has ended. It must not be called from several goroutines at once.
func (w *progressWriter) ended(ctx context.Context, one outcome) {
	if one.err != nil || one.action.want == nil {
		return
	}
	uid := one.action.want.uid
	w.missing[uid]--
	node, waits := w.nodes[uid]
	if !waits || w.missing[uid] > 0 {
		return
	}
	// Where there is no room the end of the pass has to do: operations must not wait for the API server.
	w.writing.TryGo(func() error {
		if err := w.conditions.bring(ctx, routedNode{node: node, routed: true}, time.Now()); err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.errs = append(w.errs, err)
		}
		return nil
	})
}

// done waits until all has been written, and returns what could not be.
func (w *progressWriter) done() error {
	_ = w.writing.Wait() // its functions return no errors: all of them are in errs, not only the first
	return errors.Join(w.errs...)
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

// events writes events on nodes: failures once in a while, and everything else once for as long as it holds.
type events struct {
	recorder record.EventRecorder
	failures kit.EventLimiter

	mu       sync.Mutex
	reported map[eventKey]bool
}

// eventKey is what is reported once.
type eventKey struct {
	want    key
	problem problem
}

func newEvents(recorder record.EventRecorder) *events {
	return &events{recorder: recorder, reported: map[eventKey]bool{}}
}

// failed records on a node that its route could not be made. A route that could no longer be deleted is no node's concern.
func (e *events) failed(action action, err error) {
	if action.want != nil && e.failures.Allow(action.want.uid, ReasonFailedToCreateRoute, time.Now()) {
		e.warn(*action.want, ReasonFailedToCreateRoute, fmt.Sprintf("Could not make the route to %s: %v", action.want.cidr, err))
	}
}

// waiting records on a node what the call for its route waits for.
func (e *events) waiting(action action, reason string) {
	if action.want != nil && e.failures.Allow(action.want.uid, ReasonWaitingForCloud, time.Now()) {
		e.event(*action.want, corev1.EventTypeNormal, ReasonWaitingForCloud,
			fmt.Sprintf("Waiting to %s the route to %s: %s", action.kind, action.want.cidr, reason))
	}
}

// record writes what is new among the notices of a plan. What is no longer among them may be said again later.
func (e *events) record(notices []notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.reported
	e.reported = make(map[eventKey]bool, len(notices))
	for _, notice := range notices {
		reported := eventKey{notice.want.key(), notice.problem}
		e.reported[reported] = true
		if !before[reported] {
			e.warn(notice.want, string(notice.problem), notice.message)
		}
	}
}

func (e *events) warn(w want, reason, message string) {
	e.event(w, corev1.EventTypeWarning, reason, message)
}

func (e *events) event(w want, kind, reason, message string) {
	e.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: string(w.node), UID: w.uid}, kind, reason, kit.EventMessage(message))
}
