package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/openstack/fakecloud"
	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/provider/conformance"
)

// sharedRouter is why a rule is not tried.
const sharedRouter = "a route of Neutron names no cluster: a router is one cluster's, as with cloud-provider-openstack"

// TestConformance holds the provider to the rules, on a cloud that answers as OpenStack's services do.
func TestConformance(t *testing.T) {
	skip := map[string]string{"routes-other-cluster": sharedRouter}
	want := []string{"legacy", "node", "routes-other-cluster", "watch", "zones"}
	if got := conform(t, "amphora", conformance.Options{Skip: skip}); !slices.Equal(got, want) {
		t.Errorf("rules about %q were not run, want %q", got, want)
	}
}

// TestConformanceWithOVN holds load balancers of the other driver to the rules.
func TestConformanceWithOVN(t *testing.T) {
	var rules []string
	for _, rule := range conformance.Rules() {
		if strings.HasPrefix(rule.ID, "balancer-") {
			rules = append(rules, rule.ID)
		}
	}
	skip := map[string]string{
		"balancer-source-ranges": "the driver ovn refuses allowed CIDRs",
		"balancer-health-check":  "the driver ovn has no HTTP monitors",
	}
	want := slices.Sorted(maps.Keys(skip))
	if got := conform(t, "ovn", conformance.Options{Rules: rules, Skip: skip}); !slices.Equal(got, want) {
		t.Errorf("rules about %q were not run, want %q", got, want)
	}
}

// conform runs the rules with a driver of Octavia, and returns the areas whose rules were not run. Of instances, routes and load balancers
// it returns the rules themselves.
func conform(t *testing.T, driver string, options conformance.Options) []string {
	t.Helper()
	cloud, balancers := fakecloud.New(t), octaviatest.New(t, map[string]int{"amphora": 1}[driver])
	cloud.Balancers = balancers
	cloud.Router = fakecloud.Object{"id": "router", "routes": []any{}, "revision_number": 1}
	cloud.Ports = []fakecloud.Object{{"id": "interface", "device_id": "router", "network_id": "n1", "device_owner": "network:router_interface",
		"fixed_ips": []fakecloud.Object{{"ip_address": "10.0.255.254"}}}}
	subject := New(cloud.Source(t, more+"lb-provider="+driver+"\n"))
	factory := func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: subject, Hooks: hooks(cloud, balancers, New(cloud.Source(t, more)))}, nil
	}
	var notRun []string
	options.PropagationTimeout = 5 * time.Second
	options.Progress = func(result conformance.Result) {
		if result.Outcome == conformance.NotRun {
			area, _, _ := strings.Cut(result.Rule.ID, "-")
			if area == "instances" || area == "routes" || area == "balancer" {
				area = result.Rule.ID
			}
			notRun = append(notRun, area)
		}
	}
	conformance.Run(t, factory, options)
	slices.Sort(notRun)
	return slices.Compact(notRun)
}

func hooks(cloud *fakecloud.Cloud, balancers *octaviatest.Cloud, other cloudprovider.Interface) conformance.Hooks {
	created := 0
	return conformance.Hooks{
		CreateInstance: func(_ context.Context, name string) (conformance.Instance, error) {
			created++
			id := createServer(cloud, name, created)
			return conformance.Instance{NodeName: types.NodeName(name), ProviderID: "openstack:///" + id}, nil
		},
		StopInstance: func(_ context.Context, instance conformance.Instance) error {
			change(cloud, instance, func(server fakecloud.Object) bool { server["status"] = "SHUTOFF"; return true })
			return nil
		},
		DeleteInstance: func(_ context.Context, instance conformance.Instance) error {
			change(cloud, instance, func(fakecloud.Object) bool { return false })
			return nil
		},
		InspectLoadBalancer: func(_ context.Context, cluster string, service *v1.Service) (*conformance.LoadBalancerView, error) {
			return inspect(balancers, fmt.Sprintf("kube_service_%s_%s_%s", cluster, service.Namespace, service.Name))
		},
		OtherCluster: func(context.Context) (cloudprovider.Interface, string, error) { return other, "other", nil },
		InjectFault: func(_ context.Context, fault conformance.Fault) (func(), error) {
			set := func(f func(http.ResponseWriter, *http.Request) bool) {
				cloud.Lock()
				defer cloud.Unlock()
				cloud.Fault = f
			}
			set(faulty(fault))
			return func() { set(nil) }, nil
		},
	}
}

// inspect looks at a load balancer past the provider.
func inspect(balancers *octaviatest.Cloud, name string) (*conformance.LoadBalancerView, error) {
	view := &conformance.LoadBalancerView{Targets: []types.NodeName{}, SourceRanges: []string{}}
	of := func(kind, key string, id any) []octaviatest.Object {
		return slices.DeleteFunc(balancers.All(kind), func(o octaviatest.Object) bool { return o[key] != id })
	}
	found := of(octaviatest.LoadBalancers, "name", name)
	if len(found) != 1 {
		return nil, fmt.Errorf("there are %d load balancers %s, want one", len(found), name)
	}
	for _, listener := range of(octaviatest.Listeners, "loadbalancer_id", found[0]["id"]) {
		port := v1.ServicePort{Protocol: v1.Protocol(listener["protocol"].(string)), Port: int32(listener["protocol_port"].(float64))}
		for _, member := range of(octaviatest.Members, "pool_id", listener["default_pool_id"]) {
			port.NodePort = int32(member["protocol_port"].(float64))
			view.Targets = append(view.Targets, types.NodeName(member["name"].(string)))
			if probed, ok := member["monitor_port"].(float64); ok {
				view.HealthCheckPort = new(int32(probed))
			}
		}
		view.Ports = append(view.Ports, port)
		allowed, _ := listener["allowed_cidrs"].([]any)
		for _, cidr := range allowed {
			view.SourceRanges = append(view.SourceRanges, cidr.(string))
		}
	}
	slices.Sort(view.Targets)
	view.Targets = slices.Compact(view.Targets)
	return view, nil
}

// createServer creates a server with a port.
func createServer(cloud *fakecloud.Cloud, name string, number int) string {
	cloud.Lock()
	defer cloud.Unlock()
	id, address, ipv6 := uuid.NewString(), fmt.Sprintf("10.0.%d.%d", number/200, 1+number%200), fmt.Sprintf("fd00::%x", number)
	cloud.Servers = append(cloud.Servers, fakecloud.Object{
		"id": id, "name": name, "status": "ACTIVE", "flavor": fakecloud.Object{"original_name": "m1.small"}, "OS-EXT-AZ:availability_zone": "az-a",
		"addresses": fakecloud.Object{"nodes": []fakecloud.Object{
			{"addr": address, "OS-EXT-IPS:type": "fixed"}, {"addr": ipv6, "OS-EXT-IPS:type": "fixed"},
		}},
	})
	cloud.Ports = append(cloud.Ports, fakecloud.Object{
		"id": uuid.NewString(), "device_id": id, "network_id": "n1", "status": "ACTIVE", "allowed_address_pairs": []any{}, "revision_number": 1,
		"fixed_ips": []fakecloud.Object{{"ip_address": address, "subnet_id": "nodes"}, {"ip_address": ipv6, "subnet_id": "nodes6"}}, "port_security_enabled": true,
	})
	return id
}

// change changes a server, and deletes it with its ports if keep says so.
func change(cloud *fakecloud.Cloud, instance conformance.Instance, keep func(fakecloud.Object) bool) {
	cloud.Lock()
	defer cloud.Unlock()
	id := strings.TrimPrefix(instance.ProviderID, "openstack:///")
	cloud.Servers = slices.DeleteFunc(cloud.Servers, func(server fakecloud.Object) bool {
		if server["id"] != id || keep(server) {
			return false
		}
		cloud.Ports = slices.DeleteFunc(cloud.Ports, func(port fakecloud.Object) bool { return port["device_id"] == id })
		return true
	})
}

// faulty makes every call go wrong.
func faulty(fault conformance.Fault) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		switch fault {
		case conformance.FaultHang:
			<-r.Context().Done()
		case conformance.FaultThrottle:
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
		return true
	}
}

// more is what the config of the tests says besides where the cloud is.
const more = "[Route]\nrouter-id=router\n[LoadBalancer]\nfloating-network-id=public\ncreate-monitor=true\n"
