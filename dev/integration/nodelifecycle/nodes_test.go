package nodelifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/nodelifecycle"
)

type edit = func(*corev1.Node)

// join creates nodes with a provider ID of the simulated cloud, the n-th of which belongs to the n-th instance of a seed, and
// deletes them when the test ends.
func join(t *testing.T, ready corev1.ConditionStatus, from, to int, edits ...edit) (names []string) {
	t.Helper()
	for i := from; i <= to; i++ {
		names = append(names, nodeName(i))
	}
	create(t, ready, names, append([]edit{func(n *corev1.Node) {
		var i int
		_, err := fmt.Sscanf(n.Name, "node-%d", &i)
		must.NoError(t, err)
		n.Spec.ProviderID = providerID(i)
	}}, edits...)...)
	return names
}

// nodeName is the name of the i-th instance of the simulated cloud's seed, counted from one.
func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

// providerID is the provider ID of the i-th instance.
func providerID(i int) string { return fmt.Sprintf("sim://i-%08d", i) }

// create creates nodes, and deletes them when the test ends.
func create(t *testing.T, ready corev1.ConditionStatus, names []string, edits ...edit) {
	t.Helper()
	t.Cleanup(func() { remove(t, names...) })
	each(t, names, func(ctx context.Context, name string) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, edit := range edits {
			edit(n)
		}
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, Reason: "Test", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}}
		_, err := admin.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		return err
	})
}

// each does the same for many nodes, several at a time.
func each(t *testing.T, names []string, do func(ctx context.Context, name string) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(16)
	for _, name := range names {
		group.Go(func() error { return do(ctx, name) })
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func remove(t *testing.T, names ...string) {
	t.Helper()
	each(t, names, func(ctx context.Context, name string) error {
		err := admin.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// become sets what the nodes' kubelets say of themselves. Unknown is what is noticed of their silence.
func become(t *testing.T, ready corev1.ConditionStatus, names ...string) {
	t.Helper()
	each(t, names, func(ctx context.Context, name string) error {
		now := time.Now().UTC().Format(time.RFC3339)
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`,
			ready, now, now)
		_, err := admin.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

func tainted(key, value string) edit {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule})
	}
}

func annotated(key, value string) edit {
	return func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value) }
}

func uninitialized(n *corev1.Node) {
	tainted(cloudproviderapi.TaintExternalCloudProvider, "true")(n)
}

// change changes a node as an administrator would, whatever else happens to it.
func change(t testing.TB, name string, edit edit) {
	t.Helper()
	harness.ChangeNode(t, admin, name, edit)
}

// present returns which of the nodes are there, sorted.
func present(t testing.TB, names ...string) (found []string) {
	t.Helper()
	list, err := admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	for i := range list.Items {
		if slices.Contains(names, list.Items[i].Name) {
			found = append(found, list.Items[i].Name)
		}
	}
	return found
}

// waitGone waits until none of the nodes is there.
func waitGone(t testing.TB, names ...string) {
	t.Helper()
	poll.Until(t, "deletion of nodes", func(context.Context) error {
		if left := present(t, names...); len(left) > 0 {
			return fmt.Errorf("%d are there: %v", len(left), left)
		}
		return nil
	})
}

// waitFor polls a node until problem returns none, and returns it.
func waitFor(t testing.TB, name, what string, problem func(*corev1.Node) error) *corev1.Node {
	t.Helper()
	return harness.WaitForNode(t, admin, name, what, problem)
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

// waitTainted waits until a node has the shutdown taint, or has it no longer.
func waitTainted(t testing.TB, name string, want bool) {
	t.Helper()
	waitFor(t, name, fmt.Sprintf("is tainted as shut down: %t", want), func(n *corev1.Node) error {
		if hasTaint(n, cloudproviderapi.TaintNodeShutdown) != want {
			return fmt.Errorf("the taints are %v", n.Spec.Taints)
		}
		return nil
	})
}

// heldFor returns the condition CloudInstanceGone of a node, or nil if it has no such condition.
func heldFor(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == nodelifecycle.ConditionInstanceGone {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// waitHeld waits until a node shows that it is held for a reason, or with "" that it is not held.
func waitHeld(t testing.TB, name string, want nodelifecycle.HoldReason) *corev1.Node {
	t.Helper()
	return waitFor(t, name, fmt.Sprintf("is held for %q", want), func(n *corev1.Node) error {
		condition := heldFor(n)
		if condition == nil && want == "" || condition != nil && condition.Reason == string(want) {
			return nil
		}
		return fmt.Errorf("the condition is %v", condition)
	})
}

// held returns which of the nodes show that they are held.
func held(t testing.TB, names ...string) (found []string) {
	t.Helper()
	list, err := admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	for i := range list.Items {
		if n := &list.Items[i]; slices.Contains(names, n.Name) && heldFor(n) != nil {
			found = append(found, n.Name)
		}
	}
	return found
}

// eventsOf returns the controller's events on all nodes that had a name: an event about one may come when another has its place.
func eventsOf(t testing.TB, name string) []string {
	t.Helper()
	return harness.EventsOf(t, admin, nodelifecycle.Name, name, "")
}

// waitForEvent polls until the node has an event that begins as given.
func waitForEvent(t testing.TB, name, beginning string) {
	t.Helper()
	harness.WaitForEvent(t, admin, nodelifecycle.Name, name, "", beginning)
}

// forgetDeletions removes the deletion log, so a test begins with all that its limit allows.
func forgetDeletions(t *testing.T) {
	t.Helper()
	err := admin.CoordinationV1().Leases("kube-system").Delete(t.Context(), lease, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// otherAccount returns a ServiceAccount of a second manager, with the shipped rights and a Lease of its own.
func otherAccount(t *testing.T) string {
	t.Helper()
	const name = "rack-controller-manager"
	manifest := strings.NewReplacer(lease, "rack-node-deletions", harness.Account, name).Replace(string(deploy.RBAC))
	must.NoError(t, cluster.Apply(t.Context(), []byte(manifest)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
		defer cancel()
		if err := admin.CoordinationV1().Leases("kube-system").Delete(ctx, "rack-node-deletions", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return name
}
