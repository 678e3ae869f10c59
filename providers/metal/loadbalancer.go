package metal

import (
	"context"
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/ipam"
)

// errNotLeading says that addresses were asked of a replica that has no record of them.
var errNotLeading = errors.New("this replica does not lead: it has no record of the addresses")

// balancers hands calls to the balancer of the replica that leads. The manager asks for it before it leads.
type balancers struct {
	current atomic.Pointer[ipam.Balancer]
	// started is closed once there is one.
	started chan struct{}
}

var _ cloudprovider.LoadBalancer = &balancers{}

func newBalancers() *balancers { return &balancers{started: make(chan struct{})} }

// start hands calls to a balancer. It is called once.
func (b *balancers) start(current *ipam.Balancer) {
	b.current.Store(current)
	close(b.started)
}

// of returns the balancer.
func (b *balancers) of() (*ipam.Balancer, error) {
	if current := b.current.Load(); current != nil {
		return current, nil
	}
	return nil, errNotLeading
}

// GetLoadBalancer returns the addresses that a Service has.
func (b *balancers) GetLoadBalancer(ctx context.Context, clusterName string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	current, err := b.of()
	if err != nil {
		return nil, false, err
	}
	return current.GetLoadBalancer(ctx, clusterName, service)
}

// GetLoadBalancerName returns the name by which people find a Service's addresses: its own.
func (b *balancers) GetLoadBalancerName(ctx context.Context, clusterName string, service *corev1.Service) string {
	return (&ipam.Balancer{}).GetLoadBalancerName(ctx, clusterName, service)
}

// EnsureLoadBalancer gives a Service its addresses.
func (b *balancers) EnsureLoadBalancer(ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	current, err := b.of()
	if err != nil {
		return nil, err
	}
	return current.EnsureLoadBalancer(ctx, clusterName, service, nodes)
}

// UpdateLoadBalancer does nothing to speak of: what announces looks at nodes itself.
func (b *balancers) UpdateLoadBalancer(ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node) error {
	current, err := b.of()
	if err != nil {
		return err
	}
	return current.UpdateLoadBalancer(ctx, clusterName, service, nodes)
}

// EnsureLoadBalancerDeleted takes a Service's addresses back.
func (b *balancers) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *corev1.Service) error {
	current, err := b.of()
	if err != nil {
		return err
	}
	return current.EnsureLoadBalancerDeleted(ctx, clusterName, service)
}

// list is provider.Capabilities.ListLoadBalancers.
func (b *balancers) list(ctx context.Context, clusterName string) ([]provider.LoadBalancer, error) {
	current, err := b.of()
	if err != nil {
		return nil, err
	}
	return current.ListLoadBalancers(ctx, clusterName)
}

// retry is provider.Capabilities.RetryLoadBalancers.
func (b *balancers) retry(ctx context.Context, retry func(types.NamespacedName)) {
	select {
	case <-b.started:
		b.current.Load().RetryLoadBalancers(ctx, retry)
	case <-ctx.Done():
	}
}

// setPools takes over other pools; a replica that does not lead takes them when it does.
func (b *balancers) setPools(pools []config.Pool) error {
	if current := b.current.Load(); current != nil {
		return current.SetPools(pools)
	}
	return nil
}
