package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/mooring-ccm/mooring/dev/faults/httpfault"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/openstack/faultproxy"
	"github.com/mooring-ccm/mooring/dev/openstack/openstacktest"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// eventually bounds what the services do; a busy machine takes many times as long as an idle one.
const eventually = 4 * time.Minute

// fixture is a cloud with a tenant who has a network.
type fixture struct {
	cloud   *openstack.Cloud
	clients *openstack.Clients
	env     *openstack.Environment
}

func TestCloud(t *testing.T) {
	mounts := mountsOf(t)
	f := fixture{cloud: openstacktest.Start(t)}
	namespaces := namespacesOfChildren(t)
	if len(namespaces) != 1 {
		t.Fatalf("the processes of the cloud are in the namespaces %v, want one", namespaces)
	}
	var err error
	if f.clients, err = f.cloud.Clients(t.Context(), f.cloud.Tenant()); err != nil {
		t.Fatal(err)
	}
	f.env, err = f.cloud.Environment(t.Context(), openstack.EnvironmentOptions{Name: "nodes", CIDR: "10.6.0.0/20", CIDR6: "fd00:6::/64"})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("what a tenant finds", f.catalog)
	t.Run("servers", f.servers)
	t.Run("load balancers", f.loadBalancers)
	t.Run("a worker that is killed", f.worker)
	t.Run("keystone away", f.keystone)
	t.Run("quotas and credentials", f.quotas)
	if t.Failed() {
		return
	}
	if err := f.cloud.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "no process is left", func(context.Context) error {
		if left := processesIn(t, namespaces[0]); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	if diff := cmp.Diff(mounts, mountsOf(t)); diff != "" {
		t.Errorf("mounts are left (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(f.cloud.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory %s is left: %v", f.cloud.Dir(), err)
	}
}

func (f fixture) catalog(t *testing.T) {
	f.cloud.Faults().Reset()
	pages, err := flavors.ListDetail(f.clients.Compute, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := flavors.ExtractFlavors(pages)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, flavor := range all {
		names = append(names, flavor.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{openstack.FlavorLarge, openstack.FlavorSmall}, names); diff != "" {
		t.Errorf("flavors (-want +got):\n%s", diff)
	}
	zonePages, err := availabilityzones.List(f.clients.Compute).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := availabilityzones.ExtractAvailabilityZones(zonePages)
	if err != nil {
		t.Fatal(err)
	}
	var zones []string
	for _, zone := range found {
		if zone.ZoneState.Available {
			zones = append(zones, zone.ZoneName)
		}
	}
	slices.Sort(zones)
	if diff := cmp.Diff(f.cloud.Zones(), zones); diff != "" {
		t.Errorf("zones (-want +got):\n%s", diff)
	}
	counts := faultproxy.Count(f.cloud.Faults().Calls())
	want := faultproxy.Counts{
		{Service: "compute", Method: "GET", Template: "/v2.1/flavors/detail"}:       1,
		{Service: "compute", Method: "GET", Template: "/v2.1/os-availability-zone"}: 1,
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("calls that were counted (-want +got):\n%s", diff)
	}
}

func (f fixture) servers(t *testing.T) {
	f.cloud.Faults().Reset()
	made, err := f.env.CreateServers(t.Context(), openstack.ServerOptions{
		Names: []string{"node-0", "node-1"}, Metadata: map[string]string{"role": "worker"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls := f.cloud.Faults().Calls(); len(calls) != 0 {
		t.Errorf("preparations are counted: %v", calls)
	}
	if addresses := fmt.Sprint(made[1].Addresses[f.env.NetworkName]); !strings.Contains(addresses, "10.6.") || !strings.Contains(addresses, "fd00:6:") {
		t.Errorf("addresses are %s, want one of each family", addresses)
	}
	if made[1].AvailabilityZone != f.cloud.Zones()[1] || made[1].Metadata["role"] != "worker" {
		t.Errorf("the second server is in %s with %v", made[1].AvailabilityZone, made[1].Metadata)
	}
	remove := f.cloud.Faults().Inject(faultproxy.Fault{
		Match:  faultproxy.Match{Service: "compute", Method: http.MethodGet, Path: regexp.MustCompile(`/servers/[^/]+$`)},
		Effect: httpfault.Answer{Status: http.StatusServiceUnavailable},
	})
	_, err = servers.Get(t.Context(), f.clients.Compute, made[0].ID).Extract()
	if remove(); !gophercloud.ResponseCodeIs(err, http.StatusServiceUnavailable) {
		t.Errorf("with a fault: %v, want 503", err)
	}
	if _, err := servers.Get(t.Context(), f.clients.Compute, made[0].ID).Extract(); err != nil {
		t.Errorf("without it: %v", err)
	}
	f.portActive(t, made[0])
	if err := f.cloud.SetServerError(t.Context(), made[1].ID); err != nil {
		t.Error(err)
	}
	if server, err := servers.Get(t.Context(), f.clients.Compute, made[1].ID).Extract(); err != nil || server.Status != "ERROR" {
		t.Errorf("the server is %+v, %v, want ERROR", server, err)
	}
	if err := f.env.DeleteServers(t.Context(), made[0].ID, made[1].ID); err != nil {
		t.Error(err)
	}
}

// portActive has the port of a server become ACTIVE.
func (f fixture) portActive(t *testing.T, server servers.Server) {
	t.Helper()
	pages, err := ports.List(f.clients.Network, ports.ListOpts{DeviceID: server.ID}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := ports.ExtractPorts(pages)
	if err != nil || len(found) != 1 {
		t.Fatalf("ports of a server: %v, %v, want one", found, err)
	}
	if err := f.cloud.SetPortActive(t.Context(), found[0].ID, server.AvailabilityZone); err != nil {
		t.Fatal(err)
	}
	poll.Within(t, eventually, "the port is ACTIVE", func(ctx context.Context) error {
		port, err := ports.Get(ctx, f.clients.Network, found[0].ID).Extract()
		if err == nil && port.Status != "ACTIVE" {
			err = fmt.Errorf("it is %s", port.Status)
		}
		return err
	})
}

// create makes a load balancer with a listener and a pool by one call, and returns its ID.
func (f fixture) create(t *testing.T, name, provider string) string {
	t.Helper()
	method := pools.LBMethodSourceIpPort
	if provider == "amphora" {
		method = pools.LBMethodRoundRobin
	}
	made, err := loadbalancers.Create(t.Context(), f.clients.LoadBalancer, loadbalancers.CreateOpts{
		Name: name, Provider: provider, VipSubnetID: f.env.Subnet, Tags: []string{"test"},
		Listeners: []listeners.CreateOpts{{
			Name: name, Protocol: listeners.ProtocolTCP, ProtocolPort: 80,
			DefaultPool: &pools.CreateOpts{Name: name, Protocol: pools.ProtocolTCP, LBMethod: method},
		}},
	}).Extract()
	if err != nil {
		t.Fatalf("create a load balancer of the provider %s: %v", provider, err)
	}
	return made.ID
}

// await waits until a load balancer has a provisioning status; empty means that it is gone.
func (f fixture) await(t *testing.T, id, status string) {
	t.Helper()
	poll.Within(t, eventually, "the load balancer is "+status, func(ctx context.Context) error {
		found, err := loadbalancers.Get(ctx, f.clients.LoadBalancer, id).Extract()
		switch {
		case status == "" && gophercloud.ResponseCodeIs(err, http.StatusNotFound):
			return nil
		case err != nil:
			return err
		case found.ProvisioningStatus != status:
			return fmt.Errorf("it is %s", found.ProvisioningStatus)
		}
		return nil
	})
}

func (f fixture) remove(t *testing.T, id string) {
	t.Helper()
	err := loadbalancers.Delete(t.Context(), f.clients.LoadBalancer, id, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr()
	if err != nil {
		t.Fatal(err)
	}
	f.await(t, id, "")
}

func (f fixture) loadBalancers(t *testing.T) {
	for _, provider := range []string{"ovn", "amphora"} {
		id := f.create(t, "web-"+provider, provider)
		f.await(t, id, "ACTIVE")
		if provider == "ovn" {
			// lb-list shows only those with members.
			view, err := f.cloud.OVN(t.Context(), openstack.Northbound, "--bare", "--columns=name", "list", "Load_Balancer")
			if err != nil || !strings.Contains(view, id) {
				t.Errorf("OVN has the load balancers %q, %v, want %s", view, err, id)
			}
		}
		f.remove(t, id)
	}
}

func (f fixture) worker(t *testing.T) {
	if err := f.cloud.Pause(openstack.OctaviaWorker); err != nil {
		t.Fatal(err)
	}
	id := f.create(t, "pending", "amphora")
	f.await(t, id, "PENDING_CREATE")
	if err := f.cloud.Resume(openstack.OctaviaWorker); err != nil {
		t.Fatal(err)
	}
	f.await(t, id, "ACTIVE")
	if err := f.cloud.Kill(openstack.OctaviaWorker); err != nil {
		t.Fatal(err)
	}
	if err := loadbalancers.Update(t.Context(), f.clients.LoadBalancer, id, loadbalancers.UpdateOpts{Name: new("renamed")}).Err; err != nil {
		t.Fatal(err)
	}
	f.await(t, id, "PENDING_UPDATE")
	if err := f.cloud.Restart(t.Context(), openstack.OctaviaWorker); err != nil {
		t.Fatal(err)
	}
	f.await(t, id, "ACTIVE")
	f.remove(t, id)
}

func (f fixture) keystone(t *testing.T) {
	// A service that stays away is no reason to give up on another one.
	if err := errors.Join(f.cloud.Kill(openstack.OctaviaWorker), f.cloud.Stop(t.Context(), openstack.Keystone)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.cloud.Clients(t.Context(), f.cloud.Tenant()); err == nil {
		t.Error("a login succeeded without keystone")
	}
	for _, name := range []openstack.Process{openstack.Keystone, openstack.OctaviaWorker} {
		if err := f.cloud.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.cloud.Clients(t.Context(), f.cloud.Tenant()); err != nil {
		t.Errorf("with keystone again: %v", err)
	}
	if err := f.cloud.Restart(t.Context(), openstack.Keystone); err == nil {
		t.Error("keystone was started twice")
	}
}

func (f fixture) quotas(t *testing.T) {
	if err := f.cloud.SetQuotas(t.Context(), f.cloud.Tenant(), openstack.Quotas{Servers: new(0), Ports: new(500), LoadBalancers: new(0)}); err != nil {
		t.Fatal(err)
	}
	err := loadbalancers.Create(t.Context(), f.clients.LoadBalancer, loadbalancers.CreateOpts{Name: "refused", VipSubnetID: f.env.Subnet}).Err
	if !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("a load balancer beyond the quota: %v, want 403", err)
	}
	if _, err := f.env.CreateServers(t.Context(), openstack.ServerOptions{Names: []string{"refused"}, WithoutAddresses: true}); !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("a server beyond the quota: %v, want 403", err)
	}
	credential, err := f.cloud.CreateApplicationCredential(t.Context(), f.cloud.Tenant(), "manager")
	if err != nil {
		t.Fatal(err)
	}
	if conf := f.cloud.CloudConf(credential); !strings.Contains(conf, "application-credential-id="+credential.ApplicationCredentialID+"\n") {
		t.Errorf("cloud.conf is %s", conf)
	}
	logged, err := f.cloud.Clients(t.Context(), credential)
	if err != nil || logged.ProjectID != f.clients.ProjectID {
		t.Errorf("logged in as %+v, %v", logged, err)
	}
	if err := f.cloud.DeleteApplicationCredential(t.Context(), f.cloud.Tenant(), credential); err != nil {
		t.Fatal(err)
	}
	if _, err := f.cloud.Clients(t.Context(), credential); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("with a credential that was deleted: %v, want 404, which keystone answers in the place of 401", err)
	}
}

// mountsOf returns the mounts that this process sees.
func mountsOf(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// namespacesOfChildren returns the process namespaces, other than this process's own, of what it has started.
func namespacesOfChildren(t *testing.T) []string {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for child := range strings.FieldsSeq(string(children)) {
			namespace, err := os.Readlink("/proc/" + child + "/ns/pid")
			if err == nil && namespace != own && !slices.Contains(found, namespace) {
				found = append(found, namespace)
			}
		}
	}
	return found
}

// processesIn returns the processes of a namespace.
func processesIn(t *testing.T, namespace string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(links, func(link string) bool {
		found, err := os.Readlink(link)
		return err != nil || found != namespace
	})
}
