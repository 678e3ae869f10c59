package rights_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// handOverSteps end the leader, after which the standby leads.
func handOverSteps() []step {
	return []step{{"the leader ends", func(t *testing.T, s *scenario) {
		before := s.holder(t)
		s.leader().terminate(t)
		s.leading++
		s.awaitHolder(t, before)
	}}}
}

// podSteps have a standby watch the Pod of the second leader. The first standby has watched the Pod of the first leader. The right to do so therefore
// cannot name one Pod.
func podSteps() []step {
	return []step{{"a standby watches the Pod of the leader", func(t *testing.T, s *scenario) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: s.leader().pod(), Namespace: metav1.NamespaceSystem},
			Spec:       corev1.PodSpec{NodeName: "absent", Containers: []corev1.Container{{Name: programName, Image: programName}}},
		}
		_, err := s.admin.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		must.NoError(t, err)
		standby := launch(t, s.lifetime, append(slices.Clone(s.args), "--v=4")...)
		s.replicas = append(s.replicas, standby)
		poll.Until(t, "it says what it has seen of the Pod", func(context.Context) error {
			return poll.Holds(strings.Contains(standby.Output(), "The holder of the lease may run"))
		})
	}}}
}
