package instances

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/openstack/fakecloud"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// newInstances returns the instances of a cloud with some servers, which have a port each.
func newInstances(t *testing.T, count int) (*Instances, *fakecloud.Cloud) {
	t.Helper()
	cloud := fakecloud.New(t)
	for i := range count {
		addServer(cloud, i)
	}
	source := cloud.Source(t, "")
	return New(source, session.New(source)), cloud
}

func serverID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

func addServer(cloud *fakecloud.Cloud, i int) fakecloud.Object {
	address := fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)
	added := fakecloud.Object{
		"id": serverID(i), "name": fmt.Sprintf("worker-%d", i), "status": "ACTIVE", "flavor": fakecloud.Object{"original_name": "m1.small"},
		"OS-EXT-AZ:availability_zone": "az-a", "metadata": fakecloud.Object{}, "addresses": fakecloud.Object{
			"nodes": []fakecloud.Object{{"addr": address, "version": 4, "OS-EXT-IPS:type": "fixed"}},
		},
	}
	cloud.Servers = append(cloud.Servers, added)
	cloud.Ports = append(cloud.Ports, fakecloud.Object{
		"id": fmt.Sprintf("port-%d", i), "device_id": serverID(i), "network_id": "n1", "status": "ACTIVE", "device_owner": "compute:az-a",
		"fixed_ips": []fakecloud.Object{{"ip_address": address, "subnet_id": "sub1"}},
	})
	return added
}

func list(t *testing.T, instances *Instances) ([]provider.Instance, error) {
	t.Helper()
	var all []provider.Instance
	err := instances.List(t.Context(), func(page []provider.Instance) error {
		all = append(all, page...)
		return nil
	})
	return all, err
}

func node(name, providerID string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{ProviderID: providerID}}
}

// Any number of servers costs the pages of two lists. The next page is asked for at the host that is configured, whatever the link says.
func TestListByPages(t *testing.T) {
	instances, cloud := newInstances(t, 25)
	cloud.PageSize = 10
	all, err := list(t, instances)
	if err != nil || len(all) != 25 || all[24].NodeName != "worker-24" || all[24].NodeAddresses[0].Address != "10.0.0.25" {
		t.Fatalf("%d instances, %v", len(all), err)
	}
	if len(cloud.Calls) != 6 {
		t.Errorf("%d calls, want three pages of ports and three of servers:\n%s", len(cloud.Calls), strings.Join(cloud.Calls, "\n"))
	}
}

// A list that is cut off, that is none, or that goes in circles is an error.
func TestListsThatAreNotComplete(t *testing.T) {
	answers := map[string]func(w http.ResponseWriter, marker string){
		"no list":         func(w http.ResponseWriter, _ string) { _, _ = w.Write([]byte(`{}`)) },
		"null":            func(w http.ResponseWriter, _ string) { _, _ = w.Write([]byte(`{"servers": null, "ports": null}`)) },
		"cut off":         func(w http.ResponseWriter, _ string) { _, _ = w.Write([]byte(`{"servers": [`)) },
		"a page of a web": func(w http.ResponseWriter, _ string) { _, _ = w.Write([]byte(`<html>`)) },
		"in circles": func(w http.ResponseWriter, _ string) {
			_, _ = w.Write([]byte(`{"servers": [{"id": "a"}], "servers_links": [{"rel": "next", "href": "x"}]}`))
		},
		"without IDs": func(w http.ResponseWriter, _ string) { _, _ = w.Write([]byte(`{"servers": [{"name": "a"}]}`)) },
		"an empty page that goes on": func(w http.ResponseWriter, _ string) {
			_, _ = w.Write([]byte(`{"servers": [], "servers_links": [{"rel": "next", "href": "x"}]}`))
		},
		"the second page fails": func(w http.ResponseWriter, marker string) {
			if marker != "" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			_, _ = w.Write([]byte(`{"servers": [{"id": "a", "flavor": {"original_name": "f"}}], "servers_links": [{"rel": "next", "href": "x"}]}`))
		},
		"a marker that is gone": func(w http.ResponseWriter, _ string) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"badRequest": {"code": 400, "message": "marker [x] not found"}}`))
		},
	}
	for name, answer := range answers {
		for _, service := range []string{"/servers/", "/ports"} {
			instances, cloud := newInstances(t, 3)
			cloud.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, service) {
					return false
				}
				answer(w, r.URL.Query().Get("marker"))
				return true
			}
			all, err := list(t, instances)
			if err == nil && (service == "/servers/" || name == "no list" || name == "null") {
				t.Errorf("%s of %s: a list of %d without an error", name, service, len(all))
			}
			if provider.IsNotFound(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestListLeavesOutWhatIsDeleted(t *testing.T) {
	instances, cloud := newInstances(t, 3)
	cloud.Servers[1]["status"] = "SOFT_DELETED"
	all, err := list(t, instances)
	if err != nil || len(all) != 2 {
		t.Errorf("%d, %v", len(all), err)
	}
	exists, err := instances.InstanceExists(t.Context(), node("worker-1", "openstack:///"+serverID(1)))
	if exists || err != nil {
		t.Errorf("one that waits to be reclaimed exists: %t, %v", exists, err)
	}
}

// A server that was made while the list was made has its ports, too.
func TestListAsksForPortsThatItLacks(t *testing.T) {
	instances, cloud := newInstances(t, 2)
	hidden := cloud.Ports[1]
	hidden["status"] = "ACTIVE"
	hidden["fixed_ips"] = []fakecloud.Object{{"ip_address": "10.9.9.9"}}
	cloud.Ports = cloud.Ports[:1]
	cloud.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("device_id") {
			cloud.Lock()
			cloud.Ports = append(cloud.Ports, hidden)
			cloud.Unlock()
		}
		return false
	}
	all, err := list(t, instances)
	if err != nil || len(all) != 2 || all[1].NodeAddresses[0].Address != "10.9.9.9" || len(cloud.Calls) != 3 {
		t.Errorf("%+v, %v after %q", all, err, cloud.Calls)
	}
}

// While a cell is down Nova knows the IDs of its servers only. They are as they were; without that knowledge there is no list.
func TestListWhileACellIsDown(t *testing.T) {
	instances, cloud := newInstances(t, 2)
	before, err := list(t, instances)
	if err != nil {
		t.Fatal(err)
	}
	cloud.Servers[1] = fakecloud.Object{"id": serverID(1), "status": "UNKNOWN"}
	during, err := list(t, instances)
	if err != nil || len(during) != 2 || during[1].State != provider.InstanceStateUnknown || !slices.Equal(during[1].NodeAddresses, before[1].NodeAddresses) {
		t.Errorf("%+v, %v", during, err)
	}
	known := node("worker-1", "openstack:///"+serverID(1))
	if exists, err := instances.InstanceExists(t.Context(), known); !exists || err != nil {
		t.Errorf("exists %t, %v", exists, err)
	}
	if metadata, err := instances.InstanceMetadata(t.Context(), known); err == nil || provider.IsNotFound(err) {
		t.Errorf("%+v, %v", metadata, err)
	}
	fresh, _ := newInstances(t, 0)
	fresh.session, fresh.config = instances.session, instances.config
	if all, err := list(t, fresh); err == nil {
		t.Errorf("%d instances without an error", len(all))
	}
}

func TestListEndsWithTheErrorOfYield(t *testing.T) {
	instances, _ := newInstances(t, 2)
	enough := errors.New("enough")
	if err := instances.List(t.Context(), func([]provider.Instance) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestInstances(t *testing.T) {
	instances, cloud := newInstances(t, 3)
	cloud.Servers[1]["status"] = "SHUTOFF"
	byID, byName := node("x", "openstack:///"+serverID(1)), node("worker-1", "")
	for _, of := range []*v1.Node{byID, byName} {
		exists, err := instances.InstanceExists(t.Context(), of)
		shutdown, shutdownErr := instances.InstanceShutdown(t.Context(), of)
		if !exists || !shutdown || errors.Join(err, shutdownErr) != nil {
			t.Errorf("%q: exists %t, shut down %t, %v", of.Name, exists, shutdown, errors.Join(err, shutdownErr))
		}
	}
	cloud.Calls = nil
	metadata, err := instances.InstanceMetadata(t.Context(), byID)
	if err != nil || metadata.ProviderID != byID.Spec.ProviderID || metadata.Zone != "az-a" || metadata.Region != "RegionOne" ||
		metadata.InstanceType != "m1.small" || len(metadata.NodeAddresses) != 1 || len(cloud.Calls) != 2 {
		t.Errorf("%+v, %v by %q", metadata, err, cloud.Calls)
	}
	for name, of := range map[string]*v1.Node{"by ID": node("x", "openstack:///"+serverID(9)), "by name": node("worker-9", "")} {
		if exists, err := instances.InstanceExists(t.Context(), of); exists || err != nil {
			t.Errorf("%s: exists %t, %v", name, exists, err)
		}
		if _, err := instances.InstanceMetadata(t.Context(), of); !errors.Is(err, provider.ErrInstanceNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProviderIDsAreThoseOfClusterAPI: Cluster API finds the node of a Machine by the provider ID, letter by letter, that its provider for OpenStack
// writes into the Machine: with the region where identityRef of the OpenStackMachine has one (controllers/openstackmachine_controller.go of
// kubernetes-sigs/cluster-api-provider-openstack). Its templates have the kubelet name the server without a region.
func TestProviderIDsAreThoseOfClusterAPI(t *testing.T) {
	for region, regional := range map[string]string{"": "", "RegionOne": "true"} {
		t.Setenv(config.RegionalVariable, regional)
		instances, _ := newInstances(t, 1)
		want := fmt.Sprintf("openstack://%s/%s", region, serverID(0))
		for _, of := range []*v1.Node{node("worker-0", ""), node("worker-0", want)} {
			if metadata, err := instances.InstanceMetadata(t.Context(), of); err != nil || metadata.ProviderID != want {
				t.Errorf("the node with the provider ID %q: %q, %v, want %q", of.Spec.ProviderID, metadata.ProviderID, err, want)
			}
		}
		if all, err := list(t, instances); err != nil || len(all) != 1 || all[0].ProviderID != want {
			t.Errorf("in the list: %+v, %v, want %q", all, err, want)
		}
		// What the templates write is read in any case, so such a node is not taken for one without a server.
		if exists, err := instances.InstanceExists(t.Context(), node("worker-0", "openstack:///"+serverID(0))); !exists || err != nil {
			t.Errorf("by the templates' provider ID: exists %t, %v", exists, err)
		}
	}
}

// Whatever is not Nova's own word about just this server says nothing about whether it exists.
func TestDenialsThatAreNone(t *testing.T) {
	instances, cloud := newInstances(t, 2)
	for name, fault := range map[string]func(w http.ResponseWriter){
		"a proxy's 404":      func(w http.ResponseWriter) { w.WriteHeader(404) },
		"another resource's": func(w http.ResponseWriter) { w.WriteHeader(404); _, _ = w.Write([]byte(`{"error": {"message": "m"}}`)) },
		"another server":     func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"server": {"id": "` + serverID(0) + `"}}`)) },
		"no server":          func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{}`)) },
		"forbidden":          func(w http.ResponseWriter) { w.WriteHeader(403) },
	} {
		cloud.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/servers/") {
				return false
			}
			fault(w)
			return true
		}
		if exists, err := instances.InstanceExists(t.Context(), node("x", "openstack:///"+serverID(1))); err == nil || provider.IsNotFound(err) {
			t.Errorf("%s: exists %t, %v", name, exists, err)
		}
	}
	cloud.Fault = nil
	for _, providerID := range []string{"openstack://elsewhere/" + serverID(1), "openstack:///x"} {
		if exists, err := instances.InstanceExists(t.Context(), node("x", providerID)); !provider.IsTerminal(err) {
			t.Errorf("%s: exists %t, %v", providerID, exists, err)
		}
	}
}

func TestTwoServersOfOneName(t *testing.T) {
	instances, cloud := newInstances(t, 2)
	cloud.Servers[1]["name"] = "WORKER-0"
	if _, err := instances.InstanceMetadata(t.Context(), node("worker-0", "")); err == nil || provider.IsNotFound(err) || !strings.Contains(err.Error(), "--provider-id") {
		t.Errorf("%v", err)
	}
}

// The ports that a trunk carries are found for one server as in a list, with the names of their networks.
func TestTrunks(t *testing.T) {
	instances, cloud := newInstances(t, 1)
	cloud.Networks = []fakecloud.Object{{"id": "n2", "name": "vlan"}}
	cloud.Ports[0]["trunk_details"] = fakecloud.Object{"sub_ports": []fakecloud.Object{{"port_id": "sub"}}}
	cloud.Ports = append(cloud.Ports, fakecloud.Object{"id": "sub", "device_id": "trunk", "network_id": "n2", "status": "ACTIVE",
		"fixed_ips": []fakecloud.Object{{"ip_address": "172.16.0.9"}}})
	all, err := list(t, instances)
	if err != nil || len(all[0].NodeAddresses) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	metadata, err := instances.InstanceMetadata(t.Context(), node("worker-0", ""))
	if err != nil || !slices.Equal(metadata.NodeAddresses, all[0].NodeAddresses) {
		t.Errorf("%+v, %v; the list says %+v", metadata, err, all[0].NodeAddresses)
	}
}
