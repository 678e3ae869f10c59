package runner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// foreign is the name of everything that belongs to another owner.
const foreign = "foreign-1"

// makeForeign makes a node, a Service, a load balancer and a route of another owner. The node is silent, and the cloud does not know its instance.
// The route leads to a range that no node has. A manager that treats them as its own therefore deletes them.
func makeForeign(ctx context.Context, env *environment) error {
	spec := cloudsim.DefaultInstance(1)
	spec.Name, spec.Addresses = foreign, nil
	instance, err := env.cloud.CreateInstance(ctx, spec)
	if err != nil {
		return fmt.Errorf("create a foreign instance: %w", err)
	}
	_, err = env.cloud.CreateLoadBalancer(ctx, api.LoadBalancerSpec{
		Name: foreign, Region: env.region, Listeners: []api.Listener{{Protocol: api.ProtocolTCP, Port: 80, TargetPort: 30080}},
		Tags: map[string]string{sim.TagCluster: "another", sim.TagServiceUID: "2a9a3a70-0000-0000-0000-000000000000"}, Targets: []string{instance.ID},
	})
	if err != nil {
		return fmt.Errorf("create a foreign load balancer: %w", err)
	}
	_, err = env.cloud.CreateRoute(ctx, api.RouteSpec{Cluster: "another", DestinationCIDR: "10.127.0.0/24", TargetInstance: instance.ID})
	if err != nil {
		return fmt.Errorf("create a foreign route: %w", err)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: foreign}, Spec: corev1.NodeSpec{ProviderID: "another://i-1"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
	}
	if _, err := env.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a foreign node: %w", err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: foreign}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr.To("example.com/another"), Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	if _, err := env.admin.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a foreign Service: %w", err)
	}
	return nil
}
