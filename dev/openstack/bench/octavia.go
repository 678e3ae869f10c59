package bench

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// kubernetesServices is the client of Services.
type kubernetesServices = clientcorev1.ServiceInterface

// membersComplete returns an error unless there is a load balancer for each Service, with a pool that has so many members. It asks past
// the proxies.
func (b *bench) membersComplete(ctx context.Context, members int) error {
	client := b.environment.Clients().LoadBalancer
	pages, err := pools.List(client, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := pools.ExtractPools(pages)
	if err != nil {
		return err
	}
	if err := complete("pools", len(all), b.options.Services); err != nil {
		return err
	}
	for _, pool := range all {
		if err := complete("members of "+pool.Name, len(pool.Members), members); err != nil {
			return err
		}
	}
	return nil
}

// balancersGone returns an error unless octavia has no load balancer.
func (b *bench) balancersGone(ctx context.Context) error {
	pages, err := loadbalancers.List(b.environment.Clients().LoadBalancer, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := loadbalancers.ExtractLoadBalancers(pages)
	if err == nil && len(all) > 0 {
		err = fmt.Errorf("%d load balancers, %s for example is %s", len(all), all[0].Name, all[0].ProvisioningStatus)
	}
	return err
}
