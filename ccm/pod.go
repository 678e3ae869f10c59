package ccm

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/election"
)

// The environment variables by which a process knows in which Pod it runs: the first three from metadata.name, metadata.namespace and
// metadata.uid by the downward API, the last one only where the container's terminationMessagePath is not the default.
const (
	podName        = "POD_NAME"
	podNamespace   = "POD_NAMESPACE"
	podUID         = "POD_UID"
	terminationLog = "TERMINATION_MESSAGE_PATH"
)

// ownPod returns the Pod in which this process runs, or why it is not known. A replica that does not know its own Pod neither says where it
// runs nor looks at the Pod of another one.
func ownPod(getenv func(string) string) (*election.Pod, error) {
	pod := &election.Pod{
		Namespace: getenv(podNamespace), Name: getenv(podName), UID: types.UID(getenv(podUID)),
		TerminationLog: cmp.Or(getenv(terminationLog), corev1.TerminationMessagePathDefault),
	}
	var missing []string
	for _, name := range []string{podName, podNamespace, podUID} {
		if getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the environment has no %s", strings.Join(missing, ", "))
	}
	// The UID of a static Pod is a hash of its file, which no object of the API has.
	if _, err := uuid.Parse(string(pod.UID)); err != nil || !strings.Contains(string(pod.UID), "-") {
		return nil, fmt.Errorf("%s is %q, which is not the UID of a Pod in the API: a static Pod has another UID there", podUID, pod.UID)
	}
	return pod, nil
}

// leaderPod returns ownPod for a process that takes part in leader election, and nil, which it logs, where that is not known.
func leaderPod(ctx context.Context, c *config, getenv func(string) string) *election.Pod {
	if !c.component.Generic.LeaderElection.LeaderElect {
		return nil
	}
	pod, err := ownPod(getenv)
	if err != nil {
		log.FromContext(ctx).Info("The Pod of this replica is not known", "reason", err.Error(), "consequence", withoutPod)
		return nil
	}
	return pod
}

// withoutPod is what does not work where Pods are not looked at.
const withoutPod = "after a crash of the leader the next one waits until the lease has expired"

// podGrants are the rights that it takes to see that the leader's container has terminated.
func podGrants(pod *election.Pod) []Grant {
	if pod == nil {
		return nil
	}
	return []Grant{{Resource: "pods", Namespace: pod.Namespace, Verbs: []string{"list", "watch"}, Without: withoutPod}}
}
