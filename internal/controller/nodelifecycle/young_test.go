package nodelifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// The taint of a young node waits for nothing; a denial says nothing before the node is old enough.
func TestYoungNodes(t *testing.T) {
	settings := testSettings()
	born := createdAgo(0)
	off, dead := mine(node("off", corev1.ConditionUnknown, born)), mine(node("dead", corev1.ConditionUnknown, born))
	nodes := []facts{off, dead, mine(node("r", corev1.ConditionTrue))}
	var remembered guard
	for _, pass := range []struct {
		after time.Duration
		want  []string
	}{
		{time.Second, []string{"taint off"}}, {time.Minute, []string{"taint off"}}, {2*time.Minute - 1, []string{"taint off"}},
		{2 * time.Minute, []string{"taint off"}}, {2*time.Minute + 1, []string{"taint off", "delete dead"}},
	} {
		now := today.Add(pass.after)
		said := saidAt(now, there(provider.InstanceStopped, "off"), there(provider.InstanceRunning, "r"), gone("dead"))
		var planned plan
		planned, remembered = decide(nodes, said, remembered, settings, now)
		if diff := cmp.Diff(pass.want, show(planned)); diff != "" {
			t.Errorf("at the age of %s (-want +got):\n%s", pass.after, diff)
		}
	}
}

func TestANewMachineThatIsSwitchedOffIsTaintedAtOnce(t *testing.T) {
	play(t, 0, append([]string{"off-1", "dead-1", "dead-2"}, healthy...), func(s *scene) {
		born := time.Now()
		for _, name := range []string{"off-1", "dead-1"} {
			s.informer.Update(s.cluster.change(name, func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(born) }))
		}
		time.Sleep(10 * time.Second)
		s.turn(corev1.ConditionUnknown, "off-1", "dead-1", "dead-2")
		if took := s.takes("off-1"); took > DefaultPeriod {
			t.Errorf("a young machine is tainted %s after it was switched off, want %s at most", took, DefaultPeriod)
		}
		if took := s.takes("dead-2"); took > DefaultPeriod+shortPause {
			t.Errorf("beside young nodes a node is deleted after %s", took)
		}
		time.Sleep(time.Until(born.Add(2*time.Minute - time.Second)))
		if s.cluster.get("dead-1") == nil {
			t.Errorf("a node was deleted that was not 2 minutes old")
		}
		if took := s.takes("dead-1"); took > time.Second+DefaultPeriod+2*shortPause {
			t.Errorf("a node that has come of age is deleted after %s", took)
		}
	})
}
