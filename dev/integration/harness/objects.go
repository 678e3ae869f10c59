package harness

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/poll"
)

// WaitForNode polls a node until problem returns none, and returns the node.
func WaitForNode(t testing.TB, client kubernetes.Interface, name, what string, problem func(*corev1.Node) error) *corev1.Node {
	t.Helper()
	var found *corev1.Node
	poll.Until(t, "node "+name+" "+what, func(ctx context.Context) (err error) {
		if found, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		return problem(found)
	})
	return found
}

// ChangeNode changes a node as an administrator does, and tries again after a conflict with another writer. It returns what it wrote.
func ChangeNode(t testing.TB, client kubernetes.Interface, name string, edit func(*corev1.Node)) (changed *corev1.Node) {
	t.Helper()
	poll.Until(t, "changing node "+name, func(ctx context.Context) error {
		found, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(found)
		changed, err = client.CoreV1().Nodes().Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	return changed
}

// ChangeNodeStatus changes the status of a node as its kubelet does, and tries again after a conflict with another writer.
func ChangeNodeStatus(t testing.TB, client kubernetes.Interface, name string, edit func(*corev1.Node)) {
	t.Helper()
	poll.Until(t, "changing the status of node "+name, func(ctx context.Context) error {
		found, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(found)
		_, err = client.CoreV1().Nodes().UpdateStatus(ctx, found, metav1.UpdateOptions{})
		return err
	})
}

// ChangeService changes a Service as an administrator does, and tries again after a conflict with another writer.
func ChangeService(t testing.TB, client kubernetes.Interface, namespace, name string, edit func(*corev1.Service)) {
	t.Helper()
	poll.Until(t, "changing service "+name, func(ctx context.Context) error {
		found, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(found)
		_, err = client.CoreV1().Services(namespace).Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
}

// StripService deletes a Service that a test leaves, whatever finalizer it has. Clean-ups call it.
func StripService(t testing.TB, client kubernetes.Interface, namespace, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
	defer cancel()
	services := client.CoreV1().Services(namespace)
	err := services.Delete(ctx, name, metav1.DeleteOptions{})
	for err == nil { // a manager that still runs may add its finalizer again before it sees the deletion
		_, err = services.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
	if !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
