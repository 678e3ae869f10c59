package routes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/openstack/fakecloud"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// A cloud without servers.
type noServers struct{ t *testing.T }

func (n noServers) InstanceMetadata(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return nil, provider.NotFound(fmt.Errorf("no server %s", node.Name))
}

func (n noServers) List(context.Context, func([]provider.Instance) error) error { return nil }

// newRoutes returns the routes of a router with an interface in n1, and a node per address with a port in it. The same addresses are in
// another network, too.
func newRoutes(t *testing.T, addresses ...string) (*Routes, *fakecloud.Cloud) {
	t.Helper()
	cloud := fakecloud.New(t)
	cloud.Router = fakecloud.Object{"id": "router", "routes": []any{}, "revision_number": 1}
	cloud.Ports = []fakecloud.Object{{"id": "interface", "device_id": "router", "network_id": "n1", "fixed_ips": []fakecloud.Object{}}}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i, address := range addresses {
		for _, network := range []string{"n1", "n2"} {
			cloud.Ports = append(cloud.Ports, fakecloud.Object{"id": network + address, "network_id": network, "revision_number": 1,
				"fixed_ips": []fakecloud.Object{{"ip_address": address}}, "allowed_address_pairs": []any{}, "port_security_enabled": true})
		}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}
		if err := store.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	source := cloud.Source(t, "[Route]\nrouter-id=router\n")
	routes := New(source, session.New(source), noServers{t})
	routes.UseNodes(corelisters.NewNodeLister(store))
	return routes, cloud
}

func to(node int, destination string) *cloudprovider.Route {
	return &cloudprovider.Route{TargetNode: types.NodeName(fmt.Sprintf("node-%d", node)), DestinationCIDR: destination}
}

// shown is what a router and the ports in its network have.
func shown(t *testing.T, routes *Routes, cloud *fakecloud.Cloud) string {
	t.Helper()
	all, err := routes.ListRoutes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, one := range all {
		lines = append(lines, fmt.Sprintf("%s->%s", one.DestinationCIDR, one.TargetNode))
	}
	for _, port := range cloud.Ports {
		if pairs, _ := port["allowed_address_pairs"].([]any); len(pairs) > 0 {
			for _, pair := range pairs {
				lines = append(lines, fmt.Sprintf("%s:%s", port["id"], pair.(map[string]any)["ip_address"]))
			}
		}
	}
	return strings.Join(lines, " ")
}

// A batch is one call that adds, one that removes, and one for each port; with and without Neutron's atomic calls.
func TestChange(t *testing.T) {
	for _, whole := range []bool{false, true} {
		routes, cloud := newRoutes(t, "10.0.0.1", "10.0.0.2")
		cloud.NoExtraRoutes = whole
		change := func(changes ...provider.RouteChange) {
			t.Helper()
			results, err := routes.Change(t.Context(), "", changes)
			if err := errors.Join(append(results, err)...); err != nil {
				t.Error(err)
			}
		}
		change(provider.RouteChange{New: to(0, "10.1.0.0/24")}, provider.RouteChange{New: to(1, "10.1.1.0/24")}, provider.RouteChange{New: to(1, "10.1.2.0/24")})
		want := "10.1.0.0/24->node-0 10.1.1.0/24->node-1 10.1.2.0/24->node-1 n110.0.0.1:10.1.0.0/24 n110.0.0.2:10.1.1.0/24 n110.0.0.2:10.1.2.0/24"
		if got := shown(t, routes, cloud); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		listed, err := routes.ListRoutes(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		cloud.Calls = nil
		change(provider.RouteChange{Old: listed[0]}, provider.RouteChange{Old: listed[1], New: to(0, "10.1.1.0/24")})
		if got := shown(t, routes, cloud); got != "10.1.2.0/24->node-1 10.1.1.0/24->node-0 n110.0.0.1:10.1.1.0/24 n110.0.0.2:10.1.2.0/24" {
			t.Error(got)
		}
		if changes := len(cloud.Calls); changes > 9 {
			t.Errorf("%d calls:\n%s", changes, strings.Join(cloud.Calls, "\n"))
		}
	}
}

// A route to a node that cannot have one is an error of its own, and the others are made.
func TestChangeInPart(t *testing.T) {
	routes, cloud := newRoutes(t, "10.0.0.1")
	results, err := routes.Change(t.Context(), "", []provider.RouteChange{{New: to(0, "10.1.0.0/24")}, {New: to(7, "10.1.1.0/24")}, {New: to(0, "fd01::/64")}})
	if err != nil || results[0] != nil || !errors.Is(results[1], provider.ErrInstanceNotFound) || results[2] == nil {
		t.Errorf("%v, %v", results, err)
	}
	if got := shown(t, routes, cloud); got != "10.1.0.0/24->node-0 n110.0.0.1:10.1.0.0/24" {
		t.Error(got)
	}
}

// CreateRoute makes no route before its port may send from it: the route would look finished, and no controller would complete it.
func TestPairsComeFirst(t *testing.T) {
	routes, cloud := newRoutes(t, "10.0.0.1")
	cloud.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/ports/") {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	}
	if err := routes.CreateRoute(t.Context(), "", "", to(0, "10.1.0.0/24")); err == nil {
		t.Error("no error")
	}
	if got := shown(t, routes, cloud); got != "" {
		t.Error(got)
	}
}

// Ports that check nothing, or whose cloud does not, are left alone.
func TestPortsThatCheckNothing(t *testing.T) {
	routes, cloud := newRoutes(t, "10.0.0.1", "10.0.0.2")
	cloud.Ports[1]["port_security_enabled"] = false
	delete(cloud.Ports[3], "allowed_address_pairs")
	for i := range 2 {
		if err := routes.CreateRoute(t.Context(), "", "", to(i, fmt.Sprintf("10.1.%d.0/24", i))); err != nil {
			t.Error(err)
		}
	}
	for _, call := range cloud.Calls {
		if strings.HasPrefix(call, "PUT /network/v2.0/ports/") {
			t.Error(call)
		}
	}
}

// A list that another client changes meanwhile is read again, and not overwritten.
func TestWholeListIsGuardedByItsRevision(t *testing.T) {
	routes, cloud := newRoutes(t, "10.0.0.1")
	cloud.NoExtraRoutes = true
	others := 0
	cloud.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/routers/router") && others < 2 {
			cloud.Lock()
			defer cloud.Unlock()
			others++
			there := cloud.Router["routes"].([]any)
			cloud.Router["routes"] = append(there, map[string]any{"destination": fmt.Sprintf("172.16.%d.0/24", others), "nexthop": "10.0.0.9"})
			cloud.Router["revision_number"] = cloud.Router["revision_number"].(int) + 1
		}
		return false
	}
	if err := routes.CreateRoute(t.Context(), "", "", to(0, "10.1.0.0/24")); err != nil {
		t.Error(err)
	}
	if got := shown(t, routes, cloud); got != "172.16.1.0/24->10.0.0.9 172.16.2.0/24->10.0.0.9 10.1.0.0/24->node-0 n110.0.0.1:10.1.0.0/24" {
		t.Error(got)
	}
}

// An answer without routes is no router without routes, and one that is gone is an error, never an empty list.
func TestListsThatAreNone(t *testing.T) {
	for _, body := range []string{`{}`, `{"router": {"id": "router"}}`, `{"router": {"id": "router", "routes": null}}`} {
		routes, cloud := newRoutes(t)
		cloud.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/routers/") {
				_, _ = w.Write([]byte(body))
				return true
			}
			return false
		}
		if all, err := routes.ListRoutes(t.Context(), ""); err == nil {
			t.Errorf("%s: %d routes without an error", body, len(all))
		}
	}
	routes, cloud := newRoutes(t)
	cloud.Router = nil
	if _, err := routes.ListRoutes(t.Context(), ""); !session.IsMissing(err) || !strings.Contains(err.Error(), "router router") {
		t.Error(err)
	}
	if err := routes.CreateRoute(t.Context(), "", "", to(0, "10.1.0.0/24")); err == nil {
		t.Error("no error")
	}
}
