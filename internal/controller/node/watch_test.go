package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

func TestHeartbeatsDoNotMatter(t *testing.T) {
	heartbeat := func(n *corev1.Node) {
		n.ResourceVersion = "2"
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(time.Unix(100, 0))}}
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
		n.Status.Allocatable = corev1.ResourceList{}
		n.Status.NodeInfo.Swap = &corev1.NodeSwapStatus{} // a pointer of its own in every version of a node
	}
	withSwap := func(n *corev1.Node) { n.Status.NodeInfo.Swap = &corev1.NodeSwapStatus{} }
	tests := []struct {
		name        string
		change      edit
		initialized bool // whether it matters for an initialized node
		waitingToBe bool // whether it matters for one that waits
	}{
		{name: "a heartbeat", change: heartbeat},
		{name: "a label", change: withLabels("a", "1"), initialized: true, waitingToBe: true},
		{name: "an address", change: withAddresses(internalIP("10.0.0.1")), initialized: true, waitingToBe: true},
		{name: "a provider ID", change: withID("sim://1"), initialized: true, waitingToBe: true},
		{name: "the node IP", change: withNodeIP("10.0.0.1"), initialized: true, waitingToBe: true},
		{name: "an opt-out", change: withAnnotation(ownership.AnnotationIgnore, "true"), initialized: true, waitingToBe: true},
		{name: "the proof that it is ours", change: withAnnotation(ownership.AnnotationProven, "{}"), initialized: true, waitingToBe: true},
		{name: "a foreign annotation", change: withAnnotation("x", "1"), waitingToBe: true},
		{
			name:   "a foreign taint",
			change: func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, otherTaint) }, waitingToBe: true,
		},
		{
			name: "what identifies the machine", change: func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = "x" },
			waitingToBe: true,
		},
		{
			name: "the beginning of its end", initialized: true, waitingToBe: true,
			change: func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := matters(newNode(withSwap), newNode(withSwap, test.change)); got != test.initialized {
				t.Errorf("matters to an initialized node: %t, want %t", got, test.initialized)
			}
			waiting := withTaints(cloudTaint)
			if got := matters(newNode(waiting, withSwap), newNode(waiting, withSwap, test.change)); got != test.waitingToBe {
				t.Errorf("matters to a node that waits: %t, want %t", got, test.waitingToBe)
			}
		})
	}
	if !matters(newNode(withTaints(cloudTaint)), newNode()) || !matters(newNode(), newNode(withTaints(cloudTaint))) {
		t.Error("the taint's coming or going does not matter")
	}
}
