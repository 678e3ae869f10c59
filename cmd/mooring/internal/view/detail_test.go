package view_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
)

// What is shown of single objects: what decides about them, their last events, and what helps.
func TestDetails(t *testing.T) {
	const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	annotated := func(n *corev1.Node) { n.Annotations = map[string]string{"mooring.dev/ignroe": "true"} }
	service := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", CreationTimestamp: before(time.Hour)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}}},
		Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{
			Type: "LoadBalancerReady", Status: metav1.ConditionFalse, Reason: "NoTargets", Message: "No node may be a target", LastTransitionTime: before(time.Minute),
		}}},
	}
	seen := view.Seen{
		Now: noon, NoLease: true,
		Nodes:    []corev1.Node{node("b", tainted(uninitialized, 0), annotated), node("a")},
		Services: []corev1.Service{service},
		Events: []corev1.Event{
			event("Node", "", "b", "uid", "InstanceNotFound", "the cloud has none", 3*time.Minute), event("Node", "", "c", "uid", "Synced", "other", 0),
			event("Service", "shop", "web", "", "UnAvailableLoadBalancer", "There is no node\x1b[2J", time.Minute), event("Service", "other", "web", "", "Elsewhere", "", 0),
		},
	}
	status := view.Of(seen)
	status.AddDetails(seen)
	text := status.Details(view.Style{})
	for _, want := range []string{
		"Node b: uninitialized for 1h", "what helps   Compare the node's name and provider ID", "event        3m ago,  InstanceNotFound: the cloud has none",
		"did you mean mooring.dev/ignore?", "Node a: initialized\n", "Service shop/web: not ready for 1m", "what helps   No node may be a target: a node has to be",
		"port         TCP/80, node port 30080", "docs/reference/events-and-conditions-services.md", "UnAvailableLoadBalancer: There is no node",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, none := range []string{"Elsewhere", "Synced", "\x1b"} {
		if strings.Contains(text, none) {
			t.Errorf("%q in\n%s", none, text)
		}
	}
	if detail := status.Nodes[0].Detail; detail == nil || detail.Help != "" {
		t.Errorf("a node that is as it should be has %+v", detail)
	}
}

// Where the end may not fit, rows with problems come first, in short tables too.
func TestProblemsFirst(t *testing.T) {
	status := view.Of(view.Seen{Now: noon, Nodes: []corev1.Node{node("a"), node("z", tainted("node.cloudprovider.kubernetes.io/shutdown", 0))}})
	text := status.Text(view.Style{ProblemsFirst: true})
	if bad, good := strings.Index(text, "\nz "), strings.Index(text, "\na "); bad < 0 || bad > good {
		t.Errorf("the problem is not first:\n%s", text)
	}
}
