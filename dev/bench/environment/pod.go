package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// relist is how long a kubelet takes at the most to see that a container has ended: it asks its runtime every second.
const relist = time.Second

// pod is the Pod of a manager, as far as the API server and the manager know. There is neither a kubelet nor a container: the benchmark
// writes what a kubelet would.
type pod struct {
	*corev1.Pod
	// message is the file of the container's termination message.
	message string
}

// createPod creates the Pod of a manager, bound to a node that does not exist.
func (e *Environment) createPod(ctx context.Context, name string) (pod, error) {
	message := filepath.Join(e.dir, name+".termination-log")
	if err := os.WriteFile(message, nil, 0o600); err != nil {
		return pod{}, err
	}
	created, err := e.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: "absent", Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return pod{}, fmt.Errorf("create the Pod of %s: %w", name, err)
	}
	return pod{created, message}, nil
}

// environment is what the downward API gives the container.
func (p pod) environment() []string {
	return []string{
		"POD_NAME=" + p.Name, "POD_NAMESPACE=" + p.Namespace, "POD_UID=" + string(p.UID), "TERMINATION_MESSAGE_PATH=" + p.message,
	}
}

// ReportKilled waits until the managers that were stopped have ended, and reports that a while later, as kubelets do.
func (e *Environment) ReportKilled(ctx context.Context) error {
	for _, m := range e.managers {
		if !m.stopped {
			continue
		}
		select {
		case <-m.program.Done():
		case <-ctx.Done():
			return fmt.Errorf("%s ends: %w", m.program.Name(), context.Cause(ctx))
		}
	}
	ended := metav1.Now()
	if err := e.Pause(ctx, relist); err != nil {
		return err
	}
	for _, m := range e.managers {
		if !m.stopped {
			continue
		}
		if err := e.report(ctx, m.pod, ended); err != nil {
			return fmt.Errorf("report the end of %s: %w", m.program.Name(), err)
		}
	}
	return nil
}

// report writes what a kubelet says of the Pod of a manager that was killed.
func (e *Environment) report(ctx context.Context, of pod, ended metav1.Time) error {
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
	_, err = e.cluster.Client.CoreV1().Pods(of.Namespace).UpdateStatus(ctx, status, metav1.UpdateOptions{})
	return err
}
