package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Relist is how long a kubelet takes at the most to see that a container has ended: it asks its runtime every second.
const Relist = time.Second

// Pod is the Pod of a manager, as far as the API server and the manager know. There is neither a kubelet nor a container: this package writes
// what a kubelet would.
type Pod struct {
	*corev1.Pod
	// message is the file of the container's termination message.
	message string
}

// CreatePod creates the Pod of a manager, bound to a node that does not exist. Its termination message goes to dir.
func (c *Cluster) CreatePod(ctx context.Context, dir, name string) (Pod, error) {
	message := filepath.Join(dir, name+".termination-log")
	if err := os.WriteFile(message, nil, 0o600); err != nil {
		return Pod{}, err
	}
	created, err := c.Client.CoreV1().Pods(Namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: "absent", Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return Pod{}, fmt.Errorf("create the Pod of %s: %w", name, err)
	}
	return Pod{created, message}, nil
}

// Env is what the downward API gives the container.
func (p Pod) Env() []string {
	return []string{
		"POD_NAME=" + p.Name, "POD_NAMESPACE=" + p.Namespace, "POD_UID=" + string(p.UID), "TERMINATION_MESSAGE_PATH=" + p.message,
	}
}

// ReportKilled writes what a kubelet says of the Pod of a manager that was killed.
func (c *Cluster) ReportKilled(ctx context.Context, of Pod, ended metav1.Time) error {
	message, err := os.ReadFile(of.message)
	if err != nil {
		return err
	}
	status := of.DeepCopy()
	status.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: of.Spec.Containers[0].Name, ContainerID: "containerd://1",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "Error", ContainerID: "containerd://1", StartedAt: of.CreationTimestamp, FinishedAt: ended, Message: string(message),
		}},
	}}}
	status.ResourceVersion = ""
	_, err = c.Client.CoreV1().Pods(of.Namespace).UpdateStatus(ctx, status, metav1.UpdateOptions{})
	return err
}
