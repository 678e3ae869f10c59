package quotas

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	balancerquotas "github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/quotas"
	networkquotas "github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// nova reads the limits of the project, which everybody in it may.
// https://docs.openstack.org/api-ref/compute/#limits-limits
func nova(ctx context.Context, clients *session.Clients) ([]Usage, error) {
	compute, err := clients.Compute(ctx)
	if err != nil {
		return nil, err
	}
	found, err := limits.Get(ctx, compute, nil).Extract()
	if err != nil {
		return nil, err
	}
	all := found.Absolute
	return []Usage{
		{"servers", all.TotalInstancesUsed, all.MaxTotalInstances}, {"cores", all.TotalCoresUsed, all.MaxTotalCores},
		{"memory_mebibytes", all.TotalRAMUsed, all.MaxTotalRAMSize},
	}, nil
}

// neutron reads the quotas of the project with what is used of them. A project may read its own.
// https://docs.openstack.org/api-ref/network/v2/#show-quota-details-for-a-tenant
func neutron(ctx context.Context, clients *session.Clients) ([]Usage, error) {
	network, project, err := inProject(ctx, clients, clients.Network)
	if err != nil {
		return nil, err
	}
	found, err := networkquotas.GetDetail(ctx, network, project).Extract()
	if err != nil {
		return nil, err
	}
	of := func(resource string, detail networkquotas.QuotaDetail) Usage {
		return Usage{resource, detail.Used + detail.Reserved, detail.Limit}
	}
	return []Usage{
		of("floating_ips", found.FloatingIP), of("ports", found.Port),
		of("security_groups", found.SecurityGroup), of("security_group_rules", found.SecurityGroupRule),
	}, nil
}

// octavia reads the quotas of the project, and counts what there is, which they do not say. Members are not counted: that would take a call
// for each pool.
// https://docs.openstack.org/api-ref/load-balancer/v2/#show-project-quota
func octavia(ctx context.Context, clients *session.Clients) ([]Usage, error) {
	client, project, err := inProject(ctx, clients, clients.LoadBalancer)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Quota balancerquotas.Quota `json:"quota"`
	}
	// The library asks at the path of before Octavia's API was the load balancers' own.
	if err := session.Get(ctx, client, &answer, nil, "lbaas", "quotas", project); err != nil {
		return nil, err
	}
	found := answer.Quota
	list := client.ServiceURL("lbaas", "loadbalancers") + "?fields=id&fields=listeners&fields=pools&limit=500&project_id=" + project
	pages, err := pagination.NewPager(client, list, func(r pagination.PageResult) pagination.Page {
		return loadbalancers.LoadBalancerPage{LinkedPageBase: pagination.LinkedPageBase{PageResult: r}}
	}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("counting load balancers: %w", err)
	}
	all, err := loadbalancers.ExtractLoadBalancers(pages)
	if err != nil {
		return nil, fmt.Errorf("counting load balancers: %w", err)
	}
	listeners, pools := 0, 0
	for _, one := range all {
		listeners, pools = listeners+len(one.Listeners), pools+len(one.Pools)
	}
	return []Usage{
		{"load_balancers", len(all), found.Loadbalancer}, {"listeners", listeners, found.Listener}, {"pools", pools, found.Pool},
	}, nil
}

// inProject returns the client of a service, and the project that its calls are in.
func inProject(ctx context.Context, clients *session.Clients, find func(context.Context) (*gophercloud.ServiceClient, error)) (*gophercloud.ServiceClient, string, error) {
	client, err := find(ctx)
	if err != nil {
		return nil, "", err
	}
	project, err := clients.ProjectID()
	return client, project, err
}
