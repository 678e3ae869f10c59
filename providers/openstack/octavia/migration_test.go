package octavia

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
)

// TestFromUpstreamAndBack takes over what cloud-provider-openstack made, changes it, and looks that its code finds it afterwards: the same
// objects, by the same names and tags. Upstream.Find cites its functions. The same is tried on Octavia by make test-openstack.
func TestFromUpstreamAndBack(t *testing.T) {
	for name, sharerFirst := range map[string]bool{"amphora": false, "ovn": false, "ovn, and who shares is first": true} {
		driver, _, _ := strings.Cut(name, ",")
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1, annotations.Options{Provider: driver, SubnetID: "nodes", FloatingNetworkID: "public", CreateMonitor: driver == "amphora", MonitorDelay: 5e9, MonitorTimeout: 3e9, MonitorMaxRetries: 1, MonitorMaxRetriesDown: 3})
			upstream, owner := f.upstreamService(driver)
			before := f.makeByUpstream(upstream, owner)
			sharer := sharing(owner, before)
			shared := f.makeByUpstream(upstream, sharer)
			f.cloud.Calls()
			services := []*v1.Service{owner.Service, sharer.Service}
			if sharerFirst {
				slices.Reverse(services)
			}
			for range 2 { // taken over by tags, and then nothing
				for _, service := range services {
					if status, _ := f.ensure(service, nodes(1, 2)); addresses(status) != before.FloatingIP+" VIP" {
						t.Errorf("the addresses of %s are %s, and were %s", service.Name, addresses(status), before.FloatingIP)
					}
				}
			}
			for _, call := range f.cloud.Calls() {
				if strings.HasPrefix(call, "POST") || strings.HasPrefix(call, "DELETE") || strings.HasSuffix(call, "members") && strings.HasPrefix(call, "PUT") {
					t.Errorf("the takeover made the call %s", call)
				}
			}
			for of, want := range map[*octaviatest.UpstreamService]octaviatest.Shape{&owner: before, &sharer: shared} {
				got, err := upstream.Find(f.ctx, *of)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("upstream's manager finds of %s (-before +after): %v\n%s", of.Service.Name, err, diff)
				}
			}
			f.delete(sharer.Service)
			got, err := upstream.Find(f.ctx, owner)
			if diff := cmp.Diff(before, got); diff != "" || err != nil {
				t.Errorf("after one that shares was deleted, upstream's manager finds (-before +after): %v\n%s", err, diff)
			}
			if _, err := upstream.Find(f.ctx, sharer); err == nil {
				t.Error("what the deleted Service had is still there")
			}
		})
	}
}

// upstreamService returns cloud-provider-openstack's manager and a Service for it.
func (f *fixture) upstreamService(driver string) (octaviatest.Upstream, octaviatest.UpstreamService) {
	lb, neutron := f.cloud.Clients()
	return octaviatest.Upstream{Octavia: lb, Neutron: neutron}, octaviatest.UpstreamService{Cluster: cluster, Service: web(), Driver: driver, SubnetID: "nodes",
		FloatingNetworkID: "public", Members: map[string]string{"node-1": "10.0.0.1", "node-2": "10.0.0.2"}, Monitors: driver == "amphora"}
}

// sharing returns a Service that shares the load balancer of another.
func sharing(owner octaviatest.UpstreamService, made octaviatest.Shape) octaviatest.UpstreamService {
	owner.Owner, owner.Service = made.ID, web(annotations.LoadBalancerID, made.ID)
	owner.Service.Name, owner.Service.UID = "shares", "shares-uid"
	owner.Service.Spec.Ports = []v1.ServicePort{{Protocol: v1.ProtocolTCP, Port: 8080, NodePort: 30808}}
	return owner
}

func (f *fixture) makeByUpstream(upstream octaviatest.Upstream, service octaviatest.UpstreamService) octaviatest.Shape {
	f.t.Helper()
	made, err := upstream.Make(f.ctx, service)
	if err != nil {
		f.t.Fatal(err)
	}
	return made
}

// TestOneOfTwoSharersIsDeletedBeforeItIsTakenOver deletes one of two Services that share a load balancer of cloud-provider-openstack when only
// the other one has been taken over. What it had goes, and the other one stays as it is.
func TestOneOfTwoSharersIsDeletedBeforeItIsTakenOver(t *testing.T) {
	f := newFixture(t, 1, annotations.Options{Provider: "ovn", SubnetID: "nodes", FloatingNetworkID: "public"})
	upstream, owner := f.upstreamService("ovn")
	before := f.makeByUpstream(upstream, owner)
	sharer := sharing(owner, before)
	f.makeByUpstream(upstream, sharer)
	f.ensure(owner.Service, nodes(1, 2))
	f.delete(sharer.Service)
	if _, err := upstream.Find(f.ctx, sharer); err == nil {
		t.Error("what the deleted Service had is still there")
	}
	got, err := upstream.Find(f.ctx, owner)
	if diff := cmp.Diff(before, got); diff != "" || err != nil {
		t.Errorf("the other Service (-before +after): %v\n%s", err, diff)
	}
}
