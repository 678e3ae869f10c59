package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/pagination"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider/conformance"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// TestBalancerConformance tries the rules about load balancers on octavia, with each of its drivers.
func TestBalancerConformance(t *testing.T) {
	f := newFixture(t, "rules")
	var rules []string
	for _, rule := range conformance.Rules() {
		if strings.HasPrefix(rule.ID, "balancer-") {
			rules = append(rules, rule.ID)
		}
	}
	for _, driver := range []struct {
		name string
		skip map[string]string
		more []string
	}{
		{"amphora", nil, []string{"create-monitor=true"}},
		{"ovn", map[string]string{
			"balancer-source-ranges": "the driver ovn refuses allowed CIDRs",
			"balancer-health-check":  "the driver ovn has no HTTP monitors",
		}, nil},
	} {
		t.Run(driver.name, func(t *testing.T) {
			balanced := append([]string{
				"[LoadBalancer]", "lb-provider=" + driver.name, "subnet-id=" + f.environment.Subnet, "floating-network-id=" + f.environment.External,
			}, driver.more...)
			f.configure(t, balanced...)
			other := f.provider
			f.configure(t, balanced...)
			hooks, subject := f.hooks(), f.provider
			hooks.InspectLoadBalancer = f.inspect
			hooks.OtherCluster = func(context.Context) (cloudprovider.Interface, string, error) { return other, "other", nil }
			var notRun []string
			conformance.Run(t, func(context.Context) (*conformance.Subject, error) {
				return &conformance.Subject{Cloud: subject, Hooks: hooks}, nil
			}, conformance.Options{Rules: rules, Skip: driver.skip, RuleTimeout: timeout, PropagationTimeout: time.Minute, Progress: func(result conformance.Result) {
				if result.Outcome == conformance.NotRun {
					notRun = append(notRun, result.Rule.ID)
				}
			}})
			slices.Sort(notRun)
			if want := slices.Sorted(maps.Keys(driver.skip)); !slices.Equal(notRun, want) {
				t.Errorf("rules %q were not run, want %q", notRun, want)
			}
		})
	}
}

// inspect looks at a Service's load balancer by calls of its own.
func (f *fixture) inspect(ctx context.Context, cluster string, service *corev1.Service) (*conformance.LoadBalancerView, error) {
	name := model.Name(cluster, types.NamespacedName{Namespace: service.Namespace, Name: service.Name})
	found, err := listed(ctx, loadbalancers.List(f.clients.LoadBalancer, loadbalancers.ListOpts{Name: name}), loadbalancers.ExtractLoadBalancers)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("there are %d load balancers %s, want one", len(found), name)
	}
	on, err := listed(ctx, listeners.List(f.clients.LoadBalancer, listeners.ListOpts{LoadbalancerID: found[0].ID}), listeners.ExtractListeners)
	if err != nil {
		return nil, err
	}
	view := &conformance.LoadBalancerView{Targets: []types.NodeName{}, SourceRanges: []string{}}
	for _, listener := range on {
		port := corev1.ServicePort{Protocol: corev1.Protocol(listener.Protocol), Port: int32(listener.ProtocolPort)}
		members, err := listed(ctx, pools.ListMembers(f.clients.LoadBalancer, listener.DefaultPoolID, nil), pools.ExtractMembers)
		if err != nil {
			return nil, err
		}
		for _, member := range members {
			port.NodePort = int32(member.ProtocolPort)
			view.Targets = append(view.Targets, types.NodeName(member.Name))
			if member.MonitorPort != 0 {
				view.HealthCheckPort = new(int32(member.MonitorPort))
			}
		}
		view.Ports = append(view.Ports, port)
		view.SourceRanges = append(view.SourceRanges, listener.AllowedCIDRs...)
	}
	slices.Sort(view.Targets)
	view.Targets = slices.Compact(view.Targets)
	return view, nil
}

// listed returns all that a list has.
func listed[T any](ctx context.Context, pager pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	pages, err := pager.AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return extract(pages)
}
