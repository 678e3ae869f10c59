package environment

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What is measured ends with the last of the two writes that a manager makes, whichever comes first.
func TestInitializedIsWithoutTaintAndWithIPs(t *testing.T) {
	withoutTaint, withIPs := Waiting(1), Waiting(1)
	withoutTaint.Spec.Taints = nil
	withIPs.Status.Addresses = append(withIPs.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.1"})
	both := Waiting(1)
	initialized(both, 1)
	for name, test := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"waiting": {Waiting(1), false}, "without taint": {withoutTaint, false}, "with IPs": {withIPs, false}, "both": {both, true},
	} {
		if got := isInitialized(test.node); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if kept, err := trim(both); err != nil || !isInitialized(kept.(*corev1.Node)) {
		t.Errorf("what the watch keeps of an initialized node does not show that it is: %v", err)
	}
}
