package node_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/node"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

func get(t testing.TB, name string) *corev1.Node {
	t.Helper()
	found, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	must.NoError(t, err)
	return found
}

// waitFor polls a node until problem returns none, and returns it.
func waitFor(t testing.TB, name, what string, problem func(*corev1.Node) error) *corev1.Node {
	t.Helper()
	return harness.WaitForNode(t, admin, name, what, problem)
}

// waitInitialized polls a node until it has lost the taint, and returns it.
func waitInitialized(t testing.TB, name string) *corev1.Node {
	t.Helper()
	return waitFor(t, name, "is initialized", func(n *corev1.Node) error {
		if ownership.Uninitialized(n) {
			return fmt.Errorf("the taint is there; events: %v", eventsOf(t, name))
		}
		return nil
	})
}

// waitAllInitialized polls until a number of nodes exists and none waits for its initialization.
func waitAllInitialized(t *testing.T, nodes int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%d nodes are initialized", nodes), func(ctx context.Context) error {
		list, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		waiting := 0
		for i := range list.Items {
			if ownership.Uninitialized(&list.Items[i]) {
				waiting++
			}
		}
		if waiting > 0 || len(list.Items) != nodes {
			return fmt.Errorf("of %d nodes, %d wait", len(list.Items), waiting)
		}
		return nil
	})
}

// uidOf returns the UID of the node of that name, none if there is no node.
func uidOf(t testing.TB, name string) types.UID {
	t.Helper()
	found, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	must.NoError(t, err)
	return found.UID
}

// eventsOf returns the node controller's events on a node. Those of an earlier node of the same name are left out while there is a
// node.
func eventsOf(t testing.TB, name string) []string {
	t.Helper()
	return harness.EventsOf(t, admin, node.Name, name, uidOf(t, name))
}

// waitForEvent polls until the node has an event that begins as given, and returns it.
func waitForEvent(t testing.TB, name, beginning string) string {
	t.Helper()
	return harness.WaitForEvent(t, admin, node.Name, name, uidOf(t, name), beginning)
}

// writes returns what a manager wrote to each node, "patch status 200", in the order of the answers.
func writes(t testing.TB, m *harness.Manager) map[string][]string {
	t.Helper()
	byNode := map[string][]string{}
	for _, done := range m.Writes(t, "nodes") {
		byNode[done.Name] = append(byNode[done.Name], done.What)
	}
	return byNode
}

// change changes a node as an administrator would, whatever else happens to it.
func change(t testing.TB, name string, edit func(*corev1.Node)) {
	t.Helper()
	harness.ChangeNode(t, admin, name, edit)
}

func label(keysAndValues ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for pair := range slices.Chunk(keysAndValues, 2) {
			n.Labels[pair[0]] = pair[1]
		}
	}
}

// writeZone writes the zone of a node as a field manager.
func writeZone(t *testing.T, name, manager, zone string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q,%q:%q}}}`, corev1.LabelTopologyZone, zone, corev1.LabelFailureDomainBetaZone, zone)
	_, err := admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	must.NoError(t, err)
}

// labelsOf returns those of a node's labels that a cloud controller manager is concerned with.
func labelsOf(n *corev1.Node) map[string]string {
	kept := maps.Clone(n.Labels)
	for _, key := range []string{
		corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelHostname, "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
	} {
		delete(kept, key)
	}
	return kept
}
