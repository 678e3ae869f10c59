package route_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/route"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// machine is the n-th node of a test, as the node controller leaves it: on the n-th instance of the simulated cloud, with the
// given pod CIDRs.
func machine(n int, cidrs ...string) *corev1.Node {
	instance := cloudsim.DefaultInstance(n)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: instance.Name},
		Spec:       corev1.NodeSpec{ProviderID: sim.ProviderID(fmt.Sprintf("i-%08d", n)), PodCIDRs: cidrs},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", n/250, n%250+1)},
		}},
	}
	if len(cidrs) > 0 {
		node.Spec.PodCIDR = cidrs[0]
	}
	return node
}

// podCIDRs are those of the n-th node.
func podCIDRs(n int) []string {
	return []string{fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("fd00:10:244:%x::/64", n)}
}

// join creates nodes, and deletes them when the test ends.
func join(t *testing.T, nodes ...*corev1.Node) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
		defer cancel()
		leave(t, ctx, nodes...)
	})
	slots := make(chan struct{}, 16)
	var wait sync.WaitGroup
	for _, node := range nodes {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			created, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			created.Status = node.Status
			// A conflict means that the controller was there first; no test that needs the addresses starts it before.
			_, err = admin.CoreV1().Nodes().UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
			if err != nil && !apierrors.IsConflict(err) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// leave deletes nodes.
func leave(t testing.TB, ctx context.Context, nodes ...*corev1.Node) {
	t.Helper()
	for _, node := range nodes {
		if err := admin.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// change changes a node's spec and metadata as an administrator would; status changes its status as a kubelet would.
func change(t testing.TB, name string, edit func(*corev1.Node)) {
	t.Helper()
	harness.ChangeNode(t, admin, name, edit)
}

func status(t testing.TB, name string, edit func(*corev1.Node)) {
	t.Helper()
	harness.ChangeNodeStatus(t, admin, name, edit)
}

// condition returns the node's condition NetworkUnavailable as "Status Reason", or "none" if it has no such condition.
func condition(t testing.TB, name string) string {
	t.Helper()
	for _, c := range getNode(t, name).Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "none"
}

const (
	routed   = "False RouteCreated"
	unrouted = "True NoRouteCreated"
)

// waitForCondition polls until the nodes' condition NetworkUnavailable is as given.
func waitForCondition(t testing.TB, want string, nodes ...*corev1.Node) {
	t.Helper()
	for _, node := range nodes {
		poll.Until(t, "the condition of node "+node.Name, func(context.Context) error {
			if got := condition(t, node.Name); got != want {
				return fmt.Errorf("it is %q, want %q; events: %q", got, want, eventsOf(t, node.Name))
			}
			return nil
		})
	}
}

// eventsOf returns the route controller's events on a node, as "Type Reason: message".
func eventsOf(t testing.TB, name string) []string {
	t.Helper()
	return harness.EventsOf(t, admin, route.Name, name, "")
}

// waitForEvent polls until the node has an event that begins as given.
func waitForEvent(t testing.TB, name, beginning string) {
	t.Helper()
	harness.WaitForEvent(t, admin, route.Name, name, "", beginning)
}

// audited returns what the manager asked the API server about nodes since a mark, by node: "patch status 200".
func audited(t testing.TB, since managers.Mark, of func(auditv1.Event) bool) map[string][]string {
	t.Helper()
	requests, err := harnesstest.Of(t, cluster).Requests(t.Context(), user, since)
	must.NoError(t, err)
	byNode := map[string][]string{}
	for _, event := range requests {
		if event.ObjectRef != nil && event.ObjectRef.Resource == "nodes" && of(event) {
			byNode[event.ObjectRef.Name] = append(byNode[event.ObjectRef.Name], harness.Outcome(event))
		}
	}
	return byNode
}

// writes returns what the manager wrote to nodes since a mark.
func writes(t testing.TB, since managers.Mark) map[string][]string {
	t.Helper()
	return audited(t, since, localcluster.IsWrite)
}

// mark is a place in the audit log.
func mark(t testing.TB) managers.Mark {
	t.Helper()
	end, err := harnesstest.Of(t, cluster).Mark(t.Context())
	must.NoError(t, err)
	return end
}

func getNode(t testing.TB, name string) *corev1.Node {
	t.Helper()
	found, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	must.NoError(t, err)
	return found
}
