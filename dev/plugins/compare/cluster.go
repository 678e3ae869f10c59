package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
)

// Cluster is the side of Kubernetes: what a scenario does there, and the conditions that it waits for.
type Cluster struct {
	*harness.Cluster
}

// Join registers nodes as their kubelets do: tainted as not initialized, and ready a moment later.
func (c *Cluster) Join(ctx context.Context, specs ...nodeagent.Options) error {
	for _, spec := range specs {
		agent, err := nodeagent.New(c.AdminConfig(), spec)
		if err != nil {
			return err
		}
		if err := agent.Register(ctx); err != nil {
			return err
		}
	}
	return nil
}

// FallSilent says of a node what kube-controller-manager says when its kubelet has stopped reporting.
func (c *Cluster) FallSilent(ctx context.Context, name string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range node.Status.Conditions {
			condition := &node.Status.Conditions[i]
			condition.Status, condition.LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(time.Now())
			condition.Reason, condition.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
		}
		_, err = c.Client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// ShutDown returns an error unless a node has the taint of a machine that is off.
func (c *Cluster) ShutDown(ctx context.Context, name string) error {
	if tainted, err := c.tainted(ctx, name, cloudproviderapi.TaintNodeShutdown); err != nil || !tainted {
		return errors.Join(err, fmt.Errorf("node %s does not have the taint of a machine that is off", name))
	}
	return nil
}

// NotShutDown returns an error for as long as a node has the taint of a machine that is off.
func (c *Cluster) NotShutDown(ctx context.Context, name string) error {
	if tainted, err := c.tainted(ctx, name, cloudproviderapi.TaintNodeShutdown); err != nil || tainted {
		return errors.Join(err, fmt.Errorf("node %s still has the taint of a machine that is off", name))
	}
	return nil
}

func (c *Cluster) tainted(ctx context.Context, name, key string) (bool, error) {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key }), nil
}

// NodeGone returns an error for as long as there is a node.
func (c *Cluster) NodeGone(ctx context.Context, name string) error {
	_, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return gone(err, "node "+name)
}

// ServiceGone returns an error for as long as there is a Service in the namespace default.
func (c *Cluster) ServiceGone(ctx context.Context, name string) error {
	_, err := c.Client.CoreV1().Services(corev1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
	return gone(err, "service "+name)
}

func gone(err error, what string) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("%s is still there", what))
}

// CreateService creates a Service of type LoadBalancer in the namespace default. Its ports have to name their node ports,
// which would be random otherwise.
func (c *Cluster) CreateService(
	ctx context.Context, name string, annotations map[string]string, ports ...corev1.ServicePort,
) error {
	_, err := c.Client.CoreV1().Services(corev1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports, Selector: map[string]string{"app": name}},
	}, metav1.CreateOptions{})
	return err
}

// EditService changes a Service in the namespace default.
func (c *Cluster) EditService(ctx context.Context, name string, edit func(*corev1.Service)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		services := c.Client.CoreV1().Services(corev1.NamespaceDefault)
		service, err := services.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(service)
		_, err = services.Update(ctx, service, metav1.UpdateOptions{})
		return err
	})
}

// DeleteService asks for the end of a Service in the namespace default.
func (c *Cluster) DeleteService(ctx context.Context, name string) error {
	return c.Client.CoreV1().Services(corev1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
}

// ServiceReady returns an error unless a Service in the namespace default has an address.
func (c *Cluster) ServiceReady(ctx context.Context, name string) error {
	service, err := c.Client.CoreV1().Services(corev1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
	if err == nil && len(service.Status.LoadBalancer.Ingress) == 0 {
		err = fmt.Errorf("service %s has no address", name)
	}
	return err
}

// withoutAPIServer leaves out the Service that kube-apiserver makes for itself.
func withoutAPIServer(services []corev1.Service) []corev1.Service {
	return slices.DeleteFunc(services, func(service corev1.Service) bool {
		return service.Namespace == corev1.NamespaceDefault && service.Name == "kubernetes"
	})
}

// aboutNodesAndServices leaves out what is said of leases.
func aboutNodesAndServices(events []corev1.Event) []corev1.Event {
	return slices.DeleteFunc(events, func(event corev1.Event) bool {
		return event.InvolvedObject.Kind != "Node" && event.InvolvedObject.Kind != "Service"
	})
}
