package migration_test

import (
	"context"
	"errors"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
)

const (
	// agentProvider is the plugin of both managers. It is the plugin of the simulated cloud, except for Services with annotationAgent. It leaves
	// these to an agent in the cluster, as the plugins of kube-vip and Harvester do.
	agentProvider   = "sim-with-agent"
	annotationAgent = "migration.test/agent"
	// byAgent is the Service of the agent's.
	byAgent = "by-agent"
	// agentAddress is what the agent writes.
	agentAddress = "198.51.100.7"
)

func init() {
	cloudprovider.RegisterCloudProvider(agentProvider, func(file io.Reader) (cloudprovider.Interface, error) {
		config, err := sim.ReadConfig(file)
		if err != nil {
			return nil, err
		}
		cloud, err := sim.New(config)
		return withAgent{cloud}, err
	})
}

type withAgent struct{ *sim.Cloud }

// Capabilities leaves out what concerns load balancers beside cloudprovider.LoadBalancer.
func (c withAgent) Capabilities() provider.Capabilities {
	capabilities := c.Cloud.Capabilities()
	capabilities.ListLoadBalancers, capabilities.ChangeTargets = nil, nil
	return capabilities
}

func (c withAgent) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancers, _ := c.Cloud.LoadBalancer()
	return balancersWithAgent{balancers}, true
}

// balancersWithAgent returns the status that it is given for a Service of the agent's, and does nothing.
type balancersWithAgent struct{ cloudprovider.LoadBalancer }

func ofAgent(service *corev1.Service) bool { return service.Annotations[annotationAgent] != "" }

func (b balancersWithAgent) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if ofAgent(service) {
		return service.Status.LoadBalancer.DeepCopy(), true, nil
	}
	return b.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
}

func (b balancersWithAgent) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	if ofAgent(service) {
		return service.Status.LoadBalancer.DeepCopy(), nil
	}
	return b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

func (b balancersWithAgent) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	if ofAgent(service) {
		return nil
	}
	return b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

func (b balancersWithAgent) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	if ofAgent(service) {
		return nil
	}
	return b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service)
}

// serveByAgent creates a Service of the agent's, and writes its address once the manager has been through with it.
func (s *scene) serveByAgent(t *testing.T, name string) {
	t.Helper()
	s.serve(t, name, func(service *corev1.Service) { service.Annotations = map[string]string{annotationAgent: "true"} })
	poll.Until(t, "the agent writes the address of "+name, func(ctx context.Context) error {
		service, err := s.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(service.Finalizers) == 0 {
			return errors.New("no manager has seen it yet")
		}
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: agentAddress}}
		_, err = s.client.CoreV1().Services(namespace).UpdateStatus(ctx, service, metav1.UpdateOptions{})
		return err
	})
}
