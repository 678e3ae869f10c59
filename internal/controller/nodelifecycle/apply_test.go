package nodelifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/scenariotest"
)

// version gives a node a resource version.
func version(is string) edit { return func(n *corev1.Node) { n.ResourceVersion = is } }

// A node that became ready after a manager, whose watch is late, judged it gets no taint. The taint of a node goes whatever else has changed.
func TestANodeThatHasChangedIsNotTainted(t *testing.T) {
	off := withTaint(shutdownTaint().Key, "", shutdownTaint().Effect)
	for name, test := range map[string]struct {
		judged, live *corev1.Node
		wanted, fits bool
	}{
		"as it was judged":          {node("a", corev1.ConditionUnknown), node("a", corev1.ConditionUnknown), true, true},
		"ready since":               {node("a", corev1.ConditionUnknown), node("a", corev1.ConditionTrue, version("2")), true, false},
		"tainted, and silent since": {node("a", corev1.ConditionTrue, off), node("a", corev1.ConditionUnknown, off, version("2")), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			patch := taintPatch(mine(test.judged), test.wanted)
			after, err := scenariotest.Patched(test.live, test.live, patch)
			if fits := err == nil; fits != test.fits {
				t.Fatalf("the patch fits: %t, want %t: %v", fits, test.fits, err)
			}
			if err == nil && mine(after).hasShutdownTaint() != test.wanted {
				t.Errorf("the node has the taints %v", after.Spec.Taints)
			}
		})
	}
}
