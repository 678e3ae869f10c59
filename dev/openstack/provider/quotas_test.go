package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
	"github.com/mooring-ccm/mooring/providers/openstack/quotas"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// TestQuotas reads the quotas of a project as its application credential may, while it has a server, a load balancer and a floating IP at most.
func TestQuotas(t *testing.T) {
	tenancy := newTenancy(t, "quotas")
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	must.NoError(t, tenancy.cloud.SetQuotas(ctx, tenancy.tenant, openstack.Quotas{
		Servers: new(7), Cores: new(-1), Ports: new(50), FloatingIPs: new(1), LoadBalancers: new(3), Listeners: new(-1),
	}))
	_, err := tenancy.environment.CreateServers(ctx, openstack.ServerOptions{Names: []string{"one"}})
	must.NoError(t, err)
	clients, err := tenancy.cloud.Clients(ctx, tenancy.tenant)
	must.NoError(t, err)
	must.NoError(t, loadbalancers.Create(ctx, clients.LoadBalancer, loadbalancers.CreateOpts{
		Name: "one", VipSubnetID: tenancy.environment.Subnet, Provider: "ovn",
	}).Err)

	source, err := config.Open(strings.NewReader(tenancy.cloud.CloudConf(tenancy.credentials)))
	must.NoError(t, err)
	registry, watcher := prometheus.NewRegistry(), quotas.New(session.New(source), true)
	must.NoError(t, watcher.Register(registry))
	watcher.Look(ctx)
	families, err := registry.Gather()
	must.NoError(t, err)
	var got []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			got = append(got, fmt.Sprintf("%s %s %v", family.GetName(), metric.GetLabel()[0].GetValue(), metric.GetGauge().GetValue()))
		}
	}
	for _, want := range []string{
		"mooring_openstack_quota_limit servers 7", "mooring_openstack_quota_used servers 1",
		"mooring_openstack_quota_limit ports 50",
		"mooring_openstack_quota_limit floating_ips 1", "mooring_openstack_quota_used floating_ips 0",
		"mooring_openstack_quota_limit load_balancers 3", "mooring_openstack_quota_used load_balancers 1",
		"mooring_openstack_quota_used listeners 0", "mooring_openstack_quota_used pools 0",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("it does not show %q: %q", want, got)
		}
	}
	if slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "mooring_openstack_quota_limit cores ") }) {
		t.Errorf("it shows a limit where there is none: %q", got)
	}
}
