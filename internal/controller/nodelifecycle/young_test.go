package nodelifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node that the cloud has shown needs no age, neither to be deleted nor to be tainted. One that waits for its initialization may be one
// that the cloud does not show yet.
func TestOnlyNodesThatWaitForTheirInitializationHaveToBeOld(t *testing.T) {
	settings := DefaultSettings()
	playWith(t, settings, &moody{}, append([]string{"off-1", "dead-1", "dead-2"}, healthy...), func(s *scene) {
		born := time.Now()
		for _, name := range []string{"off-1", "dead-1", "dead-2"} {
			s.informer.Update(s.cluster.change(name, func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(born) }))
		}
		s.informer.Update(s.cluster.change("dead-2", initializing))
		time.Sleep(10 * time.Second)
		s.turn(corev1.ConditionUnknown, "off-1", "dead-1", "dead-2")
		if took := s.takes("off-1"); took > DefaultPeriod {
			t.Errorf("a young machine is tainted %s after it was switched off, want %s at most", took, DefaultPeriod)
		}
		if took := s.gone("dead-1"); took > 15*time.Second {
			t.Errorf("a young node that was initialized is deleted after %s", took)
		}
		time.Sleep(time.Until(born.Add(settings.MinAge - time.Second)))
		if calls := s.cloud.count("dead-2"); calls > 0 || s.cluster.get("dead-2") == nil {
			t.Errorf("a node that waits for its initialization and is not %s old was asked for %d times", settings.MinAge, calls)
		}
		if took := s.gone("dead-2"); took > 20*time.Second {
			t.Errorf("a node that has come of age is deleted after %s", took)
		}
	})
}

// A server is deleted and its kubelet is silent: the node goes within some 15 seconds, by two questions about it and one round about at most three
// others, which serves all that are denied in those seconds.
func TestADeletedServerCostsTwoQuestionsAndARound(t *testing.T) {
	playWith(t, DefaultSettings(), &moody{}, append([]string{"dead-1", "dead-2", "dead-3"}, healthy...), func(s *scene) {
		time.Sleep(DefaultPeriod / 100)
		began := time.Now()
		s.turn(corev1.ConditionUnknown, "dead-1")
		time.Sleep(4 * time.Second)
		s.turn(corev1.ConditionUnknown, "dead-2", "dead-3")
		for _, name := range []string{"dead-1", "dead-2", "dead-3"} {
			s.gone(name)
			if calls := s.cloud.count(name); calls != 2 {
				t.Errorf("%d calls about %s, want 2", calls, name)
			}
		}
		if took := time.Since(began); took > 19*time.Second {
			t.Errorf("all are gone after %s", took)
		}
		rounds := 0
		for _, name := range healthy {
			rounds += s.cloud.count(name)
		}
		if rounds > 2*maxWitnesses {
			t.Errorf("%d questions about others, want two rounds at most", rounds)
		}
		time.Sleep(time.Minute)
		before := s.cloud.count("r1")
		time.Sleep(time.Hour)
		if s.cloud.count("r1") != before {
			t.Error("an idle cluster is asked about")
		}
	})
}

// Replicas of a cloud's API that answer in turns whether a machine runs have the taint written once, as by the reference.
func TestAlternatingPowerStatesTaintOnce(t *testing.T) {
	playWith(t, DefaultSettings(), &moody{}, append([]string{"alternates"}, healthy...), func(s *scene) {
		s.turn(corev1.ConditionUnknown, "alternates")
		s.takes("alternates")
		tainted := s.cluster.get("alternates")
		for range 20 {
			time.Sleep(30 * time.Second)
			s.turn(corev1.ConditionFalse, "alternates") // which has it asked for at once
			s.turn(corev1.ConditionUnknown, "alternates")
		}
		if calls := s.cloud.count("alternates"); calls < 20 {
			t.Fatalf("%d calls, want more", calls)
		}
		if len(tainted.Spec.Taints) != 1 || s.cluster.patches() != 1 {
			t.Errorf("%d patches of taints, want 1", s.cluster.patches())
		}
	})
}
