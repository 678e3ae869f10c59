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
	"github.com/mooring-ccm/mooring/providers/metal/ipam/pool"
)

// errNotLeading says that a replica that does not lead was asked for addresses.
var errNotLeading = errors.New("this replica does not lead: it has no allocations of addresses")

// loadBalancer hands calls to the Allocator of the replica that leads. The manager asks for it before it leads.
type loadBalancer struct {
	current atomic.Pointer[ipam.Allocator]
	// started is closed once there is one.
	started chan struct{}
}

var _ cloudprovider.LoadBalancer = &loadBalancer{}

func newLoadBalancer() *loadBalancer { return &loadBalancer{started: make(chan struct{})} }

// start hands calls to an Allocator. It is called once.
func (l *loadBalancer) start(current *ipam.Allocator) {
	l.current.Store(current)
	close(l.started)
}

// of returns the Allocator.
func (l *loadBalancer) of() (*ipam.Allocator, error) {
	if current := l.current.Load(); current != nil {
		return current, nil
	}
	return nil, errNotLeading
}

// GetLoadBalancer returns the addresses that a Service has.
func (l *loadBalancer) GetLoadBalancer(ctx context.Context, clusterName string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	current, err := l.of()
	if err != nil {
		return nil, false, err
	}
	return current.GetLoadBalancer(ctx, clusterName, service)
}

// GetLoadBalancerName returns the name by which people find a Service's addresses: its own.
func (l *loadBalancer) GetLoadBalancerName(ctx context.Context, clusterName string, service *corev1.Service) string {
	return (&ipam.Allocator{}).GetLoadBalancerName(ctx, clusterName, service)
}

// EnsureLoadBalancer gives a Service its addresses.
func (l *loadBalancer) EnsureLoadBalancer(ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	current, err := l.of()
	if err != nil {
		return nil, err
	}
	return current.EnsureLoadBalancer(ctx, clusterName, service, nodes)
}

// UpdateLoadBalancer changes nothing: package announce watches nodes itself.
func (l *loadBalancer) UpdateLoadBalancer(ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node) error {
	current, err := l.of()
	if err != nil {
		return err
	}
	return current.UpdateLoadBalancer(ctx, clusterName, service, nodes)
}

// EnsureLoadBalancerDeleted takes a Service's addresses back.
func (l *loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *corev1.Service) error {
	current, err := l.of()
	if err != nil {
		return err
	}
	return current.EnsureLoadBalancerDeleted(ctx, clusterName, service)
}

// list is provider.Capabilities.ListLoadBalancers.
func (l *loadBalancer) list(ctx context.Context, clusterName string) ([]provider.LoadBalancer, error) {
	current, err := l.of()
	if err != nil {
		return nil, err
	}
	return current.ListLoadBalancers(ctx, clusterName)
}

// retry is provider.Capabilities.RetryLoadBalancers.
func (l *loadBalancer) retry(ctx context.Context, retry func(types.NamespacedName)) {
	select {
	case <-l.started:
		l.current.Load().RetryLoadBalancers(ctx, retry)
	case <-ctx.Done():
	}
}

// setPools takes over other pools; a replica that does not lead takes them when it does.
func (l *loadBalancer) setPools(pools []config.Pool) error {
	if current := l.current.Load(); current != nil {
		return current.SetPools(pools)
	}
	return nil
}

// usage returns how much of the pools is assigned; false where that is not known yet.
func (l *loadBalancer) usage() ([]pool.Usage, bool) {
	if current := l.current.Load(); current != nil {
		return current.Usage()
	}
	return nil, false
}
