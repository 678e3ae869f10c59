package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider/conformance"
	"github.com/mooring-ccm/mooring/providers/openstack/internal/fakecloud"
)

// TestConformance holds the provider to the rules, on a cloud that answers as OpenStack's services do.
func TestConformance(t *testing.T) {
	cloud := fakecloud.New(t)
	cloud.Router = fakecloud.Object{"id": "router", "routes": []any{}, "revision_number": 1}
	cloud.Ports = []fakecloud.Object{{"id": "interface", "device_id": "router", "network_id": "n1", "device_owner": "network:router_interface",
		"fixed_ips": []fakecloud.Object{{"ip_address": "10.0.255.254"}}}}
	subject := New(cloud.Source(t, more))
	created := 0
	hooks := conformance.Hooks{
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
	factory := func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: subject, Hooks: hooks}, nil
	}
	var notRun []string
	conformance.Run(t, factory, conformance.Options{Progress: func(result conformance.Result) {
		if result.Outcome == conformance.NotRun {
			area, _, _ := strings.Cut(result.Rule.ID, "-")
			if area == "instances" || area == "routes" {
				area = result.Rule.ID
			}
			notRun = append(notRun, area)
		}
	}})
	slices.Sort(notRun)
	if got := slices.Compact(notRun); !slices.Equal(got, withoutRules) {
		t.Errorf("rules about %q were not run, want %q", got, withoutRules)
	}
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
		"fixed_ips": []fakecloud.Object{{"ip_address": address}, {"ip_address": ipv6}}, "port_security_enabled": true,
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

// more is what the config of the tests says besides where the cloud is, and withoutRules are the areas whose rules cannot be run.
const more = "[Route]\nrouter-id=router\n[LoadBalancer]\nenabled=false\n"

var withoutRules = []string{"balancer", "legacy", "routes-other-cluster", "watch", "zones"}
