package route

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

func TestWhatMatters(t *testing.T) {
	w := &watcher{scheduler: newScheduler(DefaultPeriod, 0), rules: ownership.Rules{ProviderName: "sim", Schemes: []string{"sim"}}}
	tests := []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"nothing", func(*corev1.Node) {}, false},
		{"an address", func(n *corev1.Node) { n.Status.Addresses = addresses("new") }, true},
		{"the pod CIDRs", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.120.0.0/24", "a00:100::/24"} }, true},
		{"the images", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}} }, false},
		{"a condition", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}}
		}, false},
		{"a taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "mine"}} }, false},
		{"it is foreign now", func(n *corev1.Node) { n.Annotations = map[string]string{ownership.AnnotationIgnore: "true"} }, true},
		{"it is another node of the same name", func(n *corev1.Node) { n.UID = "other" }, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := node("a", "10.120.0.0/24").node
			before.Spec.ProviderID = "sim://1"
			after := before.DeepCopy()
			test.change(after)
			if got := w.matters(before, after); got != test.want {
				t.Errorf("matters: %t, want %t", got, test.want)
			}
			if got := w.matters(after, before); got != test.want {
				t.Errorf("the way back matters: %t, want %t", got, test.want)
			}
		})
	}
}

func TestWhatIsRoutable(t *testing.T) {
	w := &watcher{rules: ownership.Rules{ProviderName: "sim"}}
	initializing := node("a", "10.120.0.0/24").node
	initializing.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	known := initializing.DeepCopy()
	known.Spec.ProviderID = "sim://1"
	for name, test := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"waits for its provider ID":   {initializing, false},
		"has it from its kubelet":     {known, true},
		"has no pod CIDR":             {node("a").node, false},
		"is initialized and has none": {node("a", "10.120.0.0/24").node, true},
	} {
		if got := w.routable(test.node); got != test.want {
			t.Errorf("a node that %s is routable: %t, want %t", name, got, test.want)
		}
	}
	if w.matters(initializing, known) != true {
		t.Error("that a node has got its provider ID does not matter")
	}
}
