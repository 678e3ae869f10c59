package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// requestTimeout is the deadline of one request to the API server.
	requestTimeout = 30 * time.Second
	// conditionWrites is how many nodes are written at once: enough for the API server to be what a mass join waits for.
	conditionWrites = 64
)

// conditions writes the condition NetworkUnavailable of nodes, where it is not what it should be.
type conditions struct {
	client client.Client

	mu sync.Mutex
	// written is what was written to nodes whose copy in the cache may still be older.
	written map[types.UID]statement
}

// statement is what a node's condition says since a version of the node.
type statement struct {
	routed          bool
	resourceVersion string
}

func newConditions(client client.Client) *conditions {
	return &conditions{client: client, written: map[types.UID]statement{}}
}

// judgedNode is a node of ours and whether all its routes are there.
type judgedNode struct {
	node   *corev1.Node
	routed bool
}

// write brings the conditions of nodes up to date. A node that has been deleted meanwhile needs none.
func (c *conditions) write(ctx context.Context, nodes []judgedNode, now time.Time) error {
	c.forget(nodes)
	var group errgroup.Group
	group.SetLimit(conditionWrites)
	errs := make([]error, len(nodes))
	for i, judged := range nodes {
		if c.says(judged) {
			continue
		}
		group.Go(func() error {
			errs[i] = c.bring(ctx, judged, now)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs: all of them, not only the first
	return errors.Join(errs...)
}

// bring brings the condition of one node up to date.
func (c *conditions) bring(ctx context.Context, judged judgedNode, now time.Time) error {
	if c.says(judged) {
		return nil
	}
	return c.patch(ctx, judged, now)
}

// says reports whether the node's condition is what it should be already. As in the reference, the reason counts: a network
// plugin that declared the network available does not know about routes.
func (c *conditions) says(judged judgedNode) bool {
	c.mu.Lock()
	written, found := c.written[judged.node.UID]
	c.mu.Unlock()
	if found && kit.Older(judged.node.ResourceVersion, written.resourceVersion) {
		return written.routed == judged.routed
	}
	status, reason, _ := networkUnavailable(judged.routed)
	current := networkCondition(judged.node)
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

// conditionPatch is a strategic merge patch: conditions are merged by type, so that those of others are not touched, whoever
// writes at the same time. The UID makes the API server refuse it for another node of the same name.
func conditionPatch(judged judgedNode, now time.Time) ([]byte, error) {
	status, reason, message := networkUnavailable(judged.routed)
	condition := map[string]any{
		"type": corev1.NodeNetworkUnavailable, "status": status, "reason": reason, "message": message,
		"lastHeartbeatTime": metav1.NewTime(now),
	}
	if current := networkCondition(judged.node); current == nil || current.Status != status {
		condition["lastTransitionTime"] = metav1.NewTime(now)
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": judged.node.UID},
		"status":   map[string]any{"conditions": []any{condition}},
	})
}

func (c *conditions) patch(ctx context.Context, judged judgedNode, now time.Time) error {
	encoded, err := conditionPatch(judged, now)
	if err != nil {
		return fmt.Errorf("encoding the condition NetworkUnavailable of node %q: %w", judged.node.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patched := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: judged.node.Name}}
	err = c.client.Status().Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, encoded), client.FieldOwner(fieldManager))
	switch outcome := kit.OutcomeOf(err); {
	case outcome == kit.Gone, outcome == kit.Outdated:
		return nil // deleted, or another node has the name now: its own event starts a pass
	case err != nil:
		return fmt.Errorf("writing the condition NetworkUnavailable of node %q: %w", judged.node.Name, err)
	}
	c.mu.Lock()
	c.written[judged.node.UID] = statement{judged.routed, patched.ResourceVersion}
	c.mu.Unlock()
	_, reason, _ := networkUnavailable(judged.routed)
	log.FromContext(ctx).Info("Wrote the condition NetworkUnavailable", "node", judged.node.Name, "reason", reason)
	return nil
}

// forget drops what was written to nodes that are gone, or whose copy in the cache shows it.
func (c *conditions) forget(nodes []judgedNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.written) == 0 {
		return
	}
	kept := make(map[types.UID]statement, len(c.written))
	for _, judged := range nodes {
		if written, found := c.written[judged.node.UID]; found && kit.Older(judged.node.ResourceVersion, written.resourceVersion) {
			kept[judged.node.UID] = written
		}
	}
	c.written = kept
}
