package octavia

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
)

// dual is a Service with two families, and node a node with an address of each in a port of its server.
func dual(f *fixture, policy v1.IPFamilyPolicy, families ...v1.IPFamily) (service *v1.Service, of []*v1.Node) {
	service, of = web(), nodes(1)
	service.Spec.IPFamilies, service.Spec.IPFamilyPolicy = families, &policy
	of[0].Status.Addresses = append(of[0].Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: "fd00::1"})
	f.cloud.Put(octaviatest.Ports, octaviatest.Object{"device_id": "server-1", "fixed_ips": []any{
		map[string]any{"ip_address": "10.0.0.1", "subnet_id": "nodes"}, map[string]any{"ip_address": "fd00::1", "subnet_id": "nodes6"}}})
	return service, of
}

func TestAddressesOfBothFamilies(t *testing.T) {
	v4, v6 := v1.IPv4Protocol, v1.IPv6Protocol
	for name, test := range map[string]struct {
		policy   v1.IPFamilyPolicy
		families []v1.IPFamily
		internal bool
		want     string
	}{
		"both":          {v1.IPFamilyPolicyRequireDualStack, []v1.IPFamily{v4, v6}, false, "203.0.113.10 VIPfd00::66 VIP"},
		"IPv6 first":    {v1.IPFamilyPolicyRequireDualStack, []v1.IPFamily{v6, v4}, false, "fd00::65 VIP203.0.113.10 VIP"},
		"internal":      {v1.IPFamilyPolicyRequireDualStack, []v1.IPFamily{v4, v6}, true, "10.0.0.101 VIPfd00::66 VIP"},
		"one preferred": {v1.IPFamilyPolicyPreferDualStack, []v1.IPFamily{v6, v4}, false, "fd00::65 VIP"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1, annotations.Options{FloatingNetworkID: "public", Internal: test.internal})
			service, of := dual(f, test.policy, test.families...)
			status, _ := f.ensure(service, of)
			if got := addresses(status); got != test.want {
				t.Errorf("the addresses are %s, want %s", got, test.want)
			}
			got, exists, err := f.balancers.GetLoadBalancer(f.ctx, cluster, service)
			if err != nil || !exists || addresses(got) != test.want {
				t.Errorf("got %v, exists %t: %v", got, exists, err)
			}
			listed, err := f.balancers.List(f.ctx, cluster)
			if err != nil || len(listed) != 1 || addresses(&listed[0].Status) != test.want {
				t.Errorf("listed %+v: %v", listed, err)
			}
		})
	}
}

// TestIPv6WhereASubnetOfIPv4IsConfigured has the VIP beside the subnet, in the only one of its network that has IPv6, and nothing created where
// there is no such one.
func TestIPv6WhereASubnetOfIPv4IsConfigured(t *testing.T) {
	v4, v6 := v1.IPv4Protocol, v1.IPv6Protocol
	second := octaviatest.Object{"network_id": "private", "cidr": "fd01::/64", "ip_version": 6}
	for name, test := range map[string]struct {
		families   []v1.IPFamily
		options    annotations.Options
		more       octaviatest.Object
		want, says string
	}{
		"IPv4 subnet":            {families: []v1.IPFamily{v6}, options: annotations.Options{SubnetID: "nodes"}, want: "fd00::65 VIP"},
		"IPv6 subnet":            {families: []v1.IPFamily{v6}, options: annotations.Options{SubnetID: "nodes6"}, more: second, want: "fd00::65 VIP"},
		"network of both":        {families: []v1.IPFamily{v6}, options: annotations.Options{NetworkID: "private"}, want: "fd00::65 VIP"},
		"IPv4 first":             {families: []v1.IPFamily{v4, v6}, options: annotations.Options{SubnetID: "nodes"}, more: second, want: "10.0.0.101 VIP"},
		"two subnets with IPv6":  {families: []v1.IPFamily{v6}, options: annotations.Options{SubnetID: "nodes"}, more: second, says: "has 2 subnets of IPv6"},
		"a network without IPv6": {families: []v1.IPFamily{v6}, options: annotations.Options{NetworkID: "public"}, says: "network public has 0 subnets of IPv6"},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Internal = true
			f := newFixture(t, 1, test.options)
			if test.more != nil {
				f.cloud.Put(octaviatest.Subnets, test.more)
			}
			service, of := dual(f, v1.IPFamilyPolicySingleStack, test.families...)
			if test.says == "" {
				if status, _ := f.ensure(service, of); addresses(status) != test.want {
					t.Errorf("the addresses are %s, want %s", addresses(status), test.want)
				}
				return
			}
			_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, of)
			if !provider.IsTerminal(err) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "spec.ipFamilies") {
				t.Errorf("error %v, want a terminal one that says %q", err, test.says)
			}
			if made := f.cloud.All(octaviatest.LoadBalancers); len(made) > 0 {
				t.Errorf("%v were made", made)
			}
		})
	}
}

// Drivers and APIs that know no additional VIPs are named, and the Service is not shown with one address.
func TestSecondFamilyIsNotSupported(t *testing.T) {
	v4, v6 := v1.IPv4Protocol, v1.IPv6Protocol
	refuse := func(f *fixture) {
		f.cloud.Fail("POST loadbalancers", 1, http.StatusBadRequest, "Unknown attribute for argument load_balancer.loadbalancer: additional_vips")
	}
	for name, test := range map[string]struct {
		driver string
		before func(*fixture)
	}{"ovn makes no additional VIP": {"ovn", func(*fixture) {}}, "an old API": {"amphora", refuse}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0, annotations.Options{FloatingNetworkID: "public", Provider: test.driver})
			test.before(f)
			service, of := dual(f, v1.IPFamilyPolicyRequireDualStack, v4, v6)
			_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, of)
			if comesAgain(err) {
				_, err = f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, of)
			}
			var unsupported *UnsupportedError
			if !errors.As(err, &unsupported) || unsupported.Driver != test.driver || unsupported.Field != dualStackField || !provider.IsTerminal(err) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A load balancer that was made for one family goes on to serve it: octavia adds no VIPs later, and the address stays.
func TestSecondFamilyIsNotAddedToALoadBalancer(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{FloatingNetworkID: "public"})
	service, of := dual(f, v1.IPFamilyPolicyPreferDualStack, v1.IPv4Protocol, v1.IPv6Protocol)
	before, _ := f.ensure(service, of)
	service.Spec.IPFamilyPolicy = new(v1.IPFamilyPolicyRequireDualStack)
	if after, _ := f.ensure(service, of); addresses(after) != addresses(before) {
		t.Errorf("the addresses were %s and are %s", addresses(before), addresses(after))
	}
}

func TestNoNodeHasTheSecondFamily(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	service, of := dual(f, v1.IPFamilyPolicyRequireDualStack, v1.IPv4Protocol, v1.IPv6Protocol)
	of[0].Status.Addresses = of[0].Status.Addresses[:2]
	_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, of)
	if err == nil || !strings.Contains(err.Error(), "no node has an address of IPv6") || provider.IsTerminal(err) {
		t.Errorf("the error is %v", err)
	}
}
