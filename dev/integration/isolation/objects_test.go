package isolation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// networks counts the pod networks that nodes were given.
var networks atomic.Int32

// node creates a node as a kubelet does that waits for a cloud controller manager. Its name begins with the manager's.
func (m *manager) node(t *testing.T, name string, edits ...func(*corev1.Node)) string {
	t.Helper()
	name = m.name + "-" + name
	network := networks.Add(1)
	cidr := fmt.Sprintf("10.%d.%d.0/24", network/256, network%256)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{labelManager: m.name}},
		Spec: corev1.NodeSpec{
			PodCIDR: cidr, PodCIDRs: []string{cidr},
			Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, edit := range edits {
		edit(node)
	}
	_, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	must.NoError(t, err)
	return name
}

// instance creates an instance and the node on it.
func (m *manager) instance(t *testing.T, name string, edits ...func(*corev1.Node)) string {
	t.Helper()
	m.cloud.AddInstance(m.name + "-" + name)
	return m.node(t, name, edits...)
}

// initialized makes a node one that a cloud controller manager has been through with.
func initialized(providerID string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Spec.ProviderID, node.Spec.Taints = providerID, nil }
}

// notReady makes a node one whose kubelet does not report.
func notReady(node *corev1.Node) {
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
}

// fail makes a node that runs one that is not ready.
func fail(t *testing.T, name string) {
	t.Helper()
	harness.ChangeNodeStatus(t, admin, name, notReady)
}

// awaitInitialized waits until a node has no taint and the provider ID of its instance.
func (m *manager) awaitInitialized(t *testing.T, name string) {
	t.Helper()
	m.awaitInitializedWithin(t, limit, name)
}

func (m *manager) awaitInitializedWithin(t *testing.T, limit time.Duration, name string) {
	t.Helper()
	poll.Within(t, limit, "node "+name+" joins", func(ctx context.Context) error {
		found, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		tainted := slices.ContainsFunc(found.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == cloudproviderapi.TaintExternalCloudProvider
		})
		if tainted || found.Spec.ProviderID != m.cloud.ProviderID(name) {
			return fmt.Errorf("its provider ID is %q, its taints are %v", found.Spec.ProviderID, found.Spec.Taints)
		}
		return nil
	})
}

// awaitGone waits until a node is deleted.
func awaitGone(t *testing.T, name string) {
	t.Helper()
	poll.Within(t, limit, "node "+name+" is deleted", func(ctx context.Context) error {
		_, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// service creates a Service of the manager's and returns its key. Its name begins with the manager's.
func (m *manager) service(t *testing.T, name string, edits ...func(*corev1.Service)) string {
	t.Helper()
	class := m.class()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: m.name + "-" + name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	for _, edit := range edits {
		edit(service)
	}
	_, err := admin.CoreV1().Services(service.Namespace).Create(t.Context(), service, metav1.CreateOptions{})
	must.NoError(t, err)
	return m.key(name)
}

// key returns the key that the cloud knows a Service by.
func (m *manager) key(name string) string { return metav1.NamespaceDefault + "/" + m.name + "-" + name }

// awaitAddress waits until a Service has an address.
func awaitAddress(t *testing.T, key string) {
	t.Helper()
	awaitAddressWithin(t, limit, key)
}

func awaitAddressWithin(t *testing.T, limit time.Duration, key string) {
	t.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	poll.Within(t, limit, "Service "+key+" has an address", func(ctx context.Context) error {
		found, err := admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(found.Status.LoadBalancer.Ingress) == 0 {
			err = fmt.Errorf("its conditions are %v", found.Status.Conditions)
		}
		return err
	})
}

// awaitWarning waits until a Node or Service has a warning, and returns the newest. Some nodes and Services have the same name.
func awaitWarning(t *testing.T, kind, name string) (message string) {
	t.Helper()
	poll.Within(t, limit, kind+" "+name+" has a warning", func(ctx context.Context) error {
		list, err := admin.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: "type=" + corev1.EventTypeWarning + ",involvedObject.kind=" + kind + ",involvedObject.name=" + name,
		})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("it has none")
		}
		if err == nil {
			message = list.Items[len(list.Items)-1].Message
		}
		return err
	})
	return message
}

// named returns the part of a key that is the name.
func named(key string) string {
	_, name, _ := strings.Cut(key, "/")
	return name
}
