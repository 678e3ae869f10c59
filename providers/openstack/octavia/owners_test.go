package octavia

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
)

// putUpstreams makes the load balancer of web as cloud-provider-openstack does: its names, its one tag, "0.0.0.0/0" written out, and its
// floating IP.
func (f *fixture) putUpstreams(tags []string) string {
	const name = "kube_service_kubernetes_default_web"
	id := f.cloud.Put(octaviatest.LoadBalancers, octaviatest.Object{"name": name, "tags": tags, "provider": "amphora",
		"description": "Kubernetes external service default/web from cluster kubernetes", "provisioning_status": "ACTIVE",
		"vip_address": "10.0.0.50", "vip_port_id": "vip-port", "vip_subnet_id": "nodes"})
	for index, port := range []int{80, 443} {
		suffix := map[int]string{0: "_0_", 1: "_1_"}[index] + name
		pool := f.cloud.Put(octaviatest.Pools, octaviatest.Object{"name": "pool" + suffix, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
			"loadbalancer_id": id, "provisioning_status": "ACTIVE"})
		f.cloud.Put(octaviatest.Listeners, octaviatest.Object{"name": "listener" + suffix, "protocol": "TCP", "protocol_port": port,
			"loadbalancer_id": id, "default_pool_id": pool, "tags": tags, "connection_limit": -1, "allowed_cidrs": []string{"0.0.0.0/0"},
			"timeout_client_data": 50000, "timeout_member_connect": 5000, "timeout_member_data": 50000, "timeout_tcp_inspect": 0})
		f.cloud.Put(octaviatest.Members, octaviatest.Object{"name": "node-1", "address": "10.0.0.1", "protocol_port": 30000 + port,
			"pool_id": pool, "loadbalancer_id": id, "subnet_id": "nodes"})
	}
	f.cloud.Put(octaviatest.FloatingIPs, octaviatest.Object{"floating_ip_address": "203.0.113.77", "port_id": "vip-port",
		"description": "Floating IP for Kubernetes external service default/web from cluster kubernetes"})
	return id
}

// TestTakeover looks that a load balancer of cloud-provider-openstack becomes ours with nothing but tags: it keeps its address and everything
// below it. And what is ours has what the other manager finds it by: name, tag, names of children and the floating IP's description.
func TestTakeover(t *testing.T) {
	const name = "kube_service_kubernetes_default_web"
	for _, tags := range [][]string{{name}, nil} {
		f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
		f.putUpstreams(tags)
		status, _ := f.ensure(web(), nodes(1))
		if got := addresses(status); got != "203.0.113.77 VIP" {
			t.Errorf("the address became %s", got)
		}
		if got := f.writes(); !slices.Equal(got, []string{"PUT loadbalancers", "PUT listeners", "PUT pools", "PUT listeners", "PUT pools"}) {
			t.Errorf("tags %q: writes %q", tags, got)
		}
		f.ensure(web(), nodes(1))
		if got := f.writes(); len(got) > 0 {
			t.Errorf("nothing to do, and writes %q", got)
		}
	}
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	f.ensure(web(), nodes(1))
	for kind, want := range map[string][]string{
		octaviatest.LoadBalancers: {name}, octaviatest.Listeners: {"listener_0_" + name, "listener_1_" + name},
		octaviatest.Pools: {"pool_0_" + name, "pool_1_" + name}, octaviatest.Members: {"node-1", "node-1"},
	} {
		if got := f.values(kind, "name"); !slices.Equal(got, want) {
			t.Errorf("%s have the names %q, want %q", kind, got, want)
		}
	}
	for _, kind := range []string{octaviatest.LoadBalancers, octaviatest.Listeners} {
		if tags := f.values(kind, "tags")[0]; !strings.HasPrefix(tags, "["+name+" ") || strings.Count(tags, "kube_service_") != 1 {
			t.Errorf("%s have the tags %s", kind, tags)
		}
	}
	if got := f.values(octaviatest.FloatingIPs, "description")[0]; got != "Floating IP for Kubernetes external service default/web from cluster kubernetes" {
		t.Errorf("the floating IP is described as %q", got)
	}
}

// TestTwoClustersOfOneName looks that a Service of the same name and another UID has a load balancer of its own, and neither touches the other's.
func TestTwoClustersOfOneName(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	f.ensure(web(), nodes(1))
	twin := web()
	twin.UID = "twin"
	if _, exists, err := f.balancers.GetLoadBalancer(f.ctx, cluster, twin); exists || err != nil {
		t.Errorf("the twin has a load balancer before it was made, error %v", err)
	}
	f.delete(twin)
	f.ensure(twin, nodes(2))
	if got := len(f.cloud.All(octaviatest.LoadBalancers)); got != 2 {
		t.Fatalf("%d load balancers", got)
	}
	f.delete(twin)
	if status, exists, err := f.balancers.GetLoadBalancer(f.ctx, cluster, web()); !exists || err != nil || addresses(status) != "203.0.113.10 VIP" {
		t.Errorf("the first has %v, error %v", status, err)
	}
}

// TestSharing has two Services on one load balancer, the first its owner, until both are gone.
func TestSharing(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	first, _ := f.ensure(web(), nodes(1))
	id := f.values(octaviatest.LoadBalancers, "id")[0]
	second := web(annotations.LoadBalancerID, id)
	second.Name, second.UID, second.Spec.Ports = "dns", "dns-uid", []v1.ServicePort{{Protocol: v1.ProtocolUDP, Port: 53, NodePort: 30053}}
	status, _ := f.ensure(second, nodes(1))
	if addresses(status) != addresses(first) || len(f.cloud.All(octaviatest.Listeners)) != 3 {
		t.Fatalf("the second has %v", status)
	}
	listed, err := f.balancers.List(f.ctx, cluster)
	if err != nil || len(listed) != 2 || len(listed[0].Ports) != 2 || len(listed[1].Ports) != 1 || listed[1].Service.Name != "dns" {
		t.Errorf("listed %+v, error %v", listed, err)
	}
	for what, service := range map[string]*v1.Service{
		"taken":     web(annotations.LoadBalancerID, id),
		"cannot":    web(annotations.LoadBalancerID, id, annotations.Internal, "true"),
		"already":   web(annotations.LoadBalancerID, id),
		"not exist": web(annotations.LoadBalancerID, "gone"),
	} {
		service.Name, service.UID = "third", "third-uid"
		options := annotations.Options{SubnetID: "nodes", MaxShared: 5}
		if what == "already" {
			options.MaxShared = 2
		}
		third := *f.balancers
		third.options = func() annotations.Options { return options.Defaulted() }
		if what == "taken" {
			what = "of another Service already"
		}
		if _, err := third.EnsureLoadBalancer(f.ctx, cluster, service, nodes(1)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	f.ensure(web(), nodes(1))
	f.delete(web())
	if got := f.values(octaviatest.Listeners, "protocol_port"); !slices.Equal(got, []string{"53"}) {
		t.Errorf("after the owner is deleted the listeners are %v", got)
	}
	f.ensure(second, nodes(1))
	f.delete(second)
	if left := f.cloud.All(octaviatest.LoadBalancers); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestBothSharersLeaveAtOnce has both look before either is gone. Nothing is left, though each saw the other.
func TestBothSharersLeaveAtOnce(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", FloatingNetworkID: "public"})
	f.ensure(web(), nodes(1))
	second := web(annotations.LoadBalancerID, f.values(octaviatest.LoadBalancers, "id")[0])
	second.Name, second.UID, second.Spec.Ports = "dns", "dns-uid", []v1.ServicePort{{Protocol: v1.ProtocolUDP, Port: 53, NodePort: 30053}}
	f.ensure(second, nodes(1))
	f.cloud.Calls()
	release := f.cloud.Hold("DELETE pools")
	defer release()
	var both sync.WaitGroup
	services, answers := []*v1.Service{web(), second}, make([]error, 2)
	for i, service := range services {
		both.Go(func() { answers[i] = f.balancers.EnsureLoadBalancerDeleted(f.ctx, cluster, service) })
	}
	begun := 0
	poll.Until(t, "both have begun", func(context.Context) error {
		for _, call := range f.cloud.Calls() {
			if strings.HasPrefix(call, "DELETE pools") {
				begun++
			}
		}
		if begun < 2 {
			return fmt.Errorf("%d have", begun)
		}
		return nil
	})
	release()
	both.Wait()
	f.later()
	for i, answer := range answers {
		if answer != nil && !comesAgain(answer) {
			t.Errorf("%s: %v", services[i].Name, answer)
		}
		if answer != nil {
			f.delete(services[i])
		}
	}
	if left := f.cloud.All(octaviatest.LoadBalancers); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if left := f.cloud.All(octaviatest.FloatingIPs); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestAClaimBringsNoTagBack has another Service leave between a look and the claim that follows from it.
func TestAClaimBringsNoTagBack(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	f.ensure(web(), nodes(1))
	id := f.values(octaviatest.LoadBalancers, "id")[0]
	tags := f.cloud.All(octaviatest.LoadBalancers)[0]["tags"]
	s, err := f.balancers.services(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	have := observation{id: id, name: "kube_service_kubernetes_default_web", tags: []string{"kube_service_kubernetes_default_web", "kube_service_kubernetes_default_gone"}}
	if err := s.api.claim(f.ctx, have, change{name: have.name, tags: append(have.tags, "new")}); !comesAgain(err) {
		t.Errorf("error %v", err)
	}
	if left := f.cloud.All(octaviatest.LoadBalancers)[0]["tags"]; !reflect.DeepEqual(left, tags) {
		t.Errorf("the tags were %v and are %v", tags, left)
	}
}

// TestForeignLoadBalancer looks that a load balancer which a person made loses nothing but what the Service had in it.
func TestForeignLoadBalancer(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	f.cloud.Put(octaviatest.LoadBalancers, octaviatest.Object{"id": "theirs", "name": "theirs", "provider": "amphora", "provisioning_status": "ACTIVE",
		"tags": []string{"team"}, "vip_address": "10.0.0.9", "vip_port_id": "their-port", "vip_subnet_id": "nodes"})
	f.cloud.Put(octaviatest.Listeners, octaviatest.Object{"name": "theirs", "protocol": "TCP", "protocol_port": 22, "loadbalancer_id": "theirs"})
	service := web(annotations.LoadBalancerID, "theirs")
	if _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, nodes(1)); !provider.IsTerminal(err) {
		t.Errorf("without a floating IP, which only its owner may attach: error %v", err)
	}
	f.cloud.Put(octaviatest.FloatingIPs, octaviatest.Object{"floating_ip_address": "203.0.113.99", "port_id": "their-port"})
	f.ensure(service, nodes(1))
	f.delete(service)
	lb := f.cloud.All(octaviatest.LoadBalancers)
	if got := f.values(octaviatest.Listeners, "name"); len(lb) != 1 || !slices.Equal(got, []string{"theirs"}) || len(f.cloud.All(octaviatest.FloatingIPs)) != 1 {
		t.Errorf("left are %v, listeners %v", lb, got)
	}
	if got := f.values(octaviatest.LoadBalancers, "tags"); got[0] != "[team]" {
		t.Errorf("tags %v", got)
	}
}

// TestList looks at what is listed, and that it costs four calls once members are known.
func TestList(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	f.putUpstreams(nil)
	if listed, err := f.balancers.List(f.ctx, cluster); err != nil || listed == nil || len(listed) != 0 {
		t.Errorf("before anything is ours: %v, error %v", listed, err)
	}
	f.wantCalls("nothing", "GET loadbalancers")
	status, _ := f.ensure(web(annotations.ProxyProtocol, "v1"), nodes(1, 2))
	other := web(annotations.Prefix+"hostname", "other.example")
	other.Name, other.UID = "other", "other-uid"
	ofOther, _ := f.ensure(other, nil)
	f.cloud.Calls()
	want := []provider.LoadBalancer{{
		Name: "kube_service_kubernetes_default_web", Service: types.NamespacedName{Namespace: "default", Name: "web"}, ServiceUID: "web-uid",
		ClusterUID: clusterUID, Status: *status, Targets: []types.NodeName{"node-1", "node-2"}, Ports: []v1.ServicePort{
			{Protocol: v1.ProtocolTCP, Port: 80, NodePort: 30080}, {Protocol: v1.ProtocolTCP, Port: 443, NodePort: 30443}},
	}, {
		Name: "kube_service_kubernetes_default_other", Service: types.NamespacedName{Namespace: "default", Name: "other"}, ServiceUID: "other-uid",
		ClusterUID: clusterUID, Status: *ofOther, Targets: []types.NodeName{},
	}}
	for when, calls := range map[string][]string{
		"1: unknown members": {"GET loadbalancers", "GET listeners", "GET pools", "GET floatingips", "GET loadbalancers/status"},
		"2: known members":   {"GET loadbalancers", "GET listeners", "GET pools", "GET floatingips"},
	} {
		if when[0] == '1' {
			f.balancers.known.keep(nil)
		} else if _, err := f.balancers.List(f.ctx, cluster); err != nil {
			t.Fatal(err)
		}
		f.cloud.Calls()
		got, err := f.balancers.List(f.ctx, cluster)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, difference (-want +got):\n%s", when, err, diff)
		}
		f.wantCalls(when, calls...)
	}
}

// TestLostChildrenTags looks that a list is complete where a listener has lost its tags.
func TestLostChildrenTags(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	f.ensure(web(), nodes(1))
	want, err := f.balancers.List(f.ctx, cluster)
	if err != nil {
		t.Fatal(err)
	}
	f.cloud.Set(octaviatest.Pools, f.values(octaviatest.Pools, "id")[0], octaviatest.Object{"tags": nil})
	f.cloud.Set(octaviatest.Listeners, f.values(octaviatest.Listeners, "id")[0], octaviatest.Object{"tags": []string{want[0].Name}})
	got, err := f.balancers.List(f.ctx, cluster)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, difference (-want +got):\n%s", err, diff)
	}
}

// TestFloatingIPs looks at where the floating IP comes from.
func TestFloatingIPs(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*octaviatest.Cloud)
		service func(*v1.Service)
		want    string
	}{
		"asked for and free": {
			func(c *octaviatest.Cloud) {
				c.Put(octaviatest.FloatingIPs, octaviatest.Object{"floating_ip_address": "203.0.113.5"})
			},
			func(s *v1.Service) { s.Spec.LoadBalancerIP = "203.0.113.5" }, "203.0.113.5 VIP"},
		"asked for and taken": {
			func(c *octaviatest.Cloud) {
				c.Put(octaviatest.FloatingIPs, octaviatest.Object{"floating_ip_address": "203.0.113.5", "port_id": "other"})
			},
			func(s *v1.Service) { s.Spec.LoadBalancerIP = "203.0.113.5" }, "is attached to port other"},
		"asked for and new": {nil, func(s *v1.Service) { s.Spec.LoadBalancerIP = "203.0.113.6" }, "203.0.113.6 VIP"},
		"internal":          {nil, func(s *v1.Service) { s.Annotations[annotations.Internal] = "true" }, "10.0.0.101 VIP"},
		"internal with an address": {nil, func(s *v1.Service) {
			s.Annotations[annotations.Internal], s.Spec.LoadBalancerIP = "true", "10.0.0.200"
		}, "10.0.0.200 VIP"},
		"subnet by tag": {
			func(c *octaviatest.Cloud) {
				c.Put(octaviatest.Subnets, octaviatest.Object{"id": "dmz-subnet", "name": "dmz", "network_id": "public", "tags": []string{"dmz"}})
			},
			func(s *v1.Service) { s.Annotations[annotations.Prefix+"floating-subnet-tags"] = "dmz" }, "203.0.113.10 VIP"},
		"no such subnet": {nil, func(s *v1.Service) { s.Annotations[annotations.Prefix+"floating-subnet"] = "dmz" }, "no subnet whose name matches"},
		"several networks": {
			func(c *octaviatest.Cloud) {
				c.Put(octaviatest.Networks, octaviatest.Object{"id": "p2", "name": "p2", "router:external": true})
			},
			func(*v1.Service) {}, "there are 2 external networks"},
		"no network": {
			func(c *octaviatest.Cloud) {
				c.Set(octaviatest.Networks, "public", octaviatest.Object{"router:external": false})
			},
			func(*v1.Service) {}, "10.0.0.101 VIP"},
		"hostname":       {nil, func(s *v1.Service) { s.Annotations[annotations.Prefix+"hostname"] = "web.example" }, "web.example"},
		"PROXY protocol": {nil, func(s *v1.Service) { s.Annotations[annotations.ProxyProtocol] = "true" }, "203.0.113.10 Proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
			if test.prepare != nil {
				test.prepare(f.cloud.Cloud)
			}
			service := web()
			test.service(service)
			_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, nodes(1))
			var status *v1.LoadBalancerStatus
			if comesAgain(err) {
				status, err = f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, nodes(1))
			}
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = addresses(status)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if subnet := f.values(octaviatest.FloatingIPs, "subnet_id"); name == "subnet by tag" && subnet[0] != "dmz-subnet" {
				t.Errorf("the floating IP is of subnet %v", subnet)
			}
		})
	}
}

// TestSecurityGroups looks at the group of a Service: its rules, the ports in it, and that it goes with the Service.
func TestSecurityGroups(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", ManageSecurityGroups: true})
	f.putPorts(1, 2, 3)
	f.ensure(web(), nodes(1, 2))
	group := f.values(octaviatest.Groups, "id")[0]
	if got := f.values(octaviatest.Groups, "name")[0]; got != "lb-sg-web-uid-default-web" {
		t.Errorf("the group's name is %s", got)
	}
	wantGroups := func(when string, want ...string) {
		t.Helper()
		if got := f.values(octaviatest.Ports, "security_groups"); !slices.Equal(got, want) {
			t.Errorf("%s: ports are in %q, want %q", when, got, want)
		}
	}
	wantGroups("ensured", "[default "+group+"]", "[default "+group+"]", "[default]")
	if got := f.values(octaviatest.Rules, "port_range_min"); !slices.Equal(got, []string{"30080", "30443"}) {
		t.Errorf("rules %v", got)
	}
	f.cloud.Calls()
	if f.ensure(web(), nodes(1, 2)); len(f.writes()) > 0 {
		t.Error("nothing to do, and writes")
	}
	service := web()
	service.Spec.Ports[1].NodePort = 30444
	f.ensure(service, nodes(2, 3))
	wantGroups("changed", "[default]", "[default "+group+"]", "[default "+group+"]")
	if got := f.values(octaviatest.Rules, "port_range_min"); !slices.Equal(got, []string{"30080", "30444"}) {
		t.Errorf("rules %v", got)
	}
	f.delete(service)
	wantGroups("deleted", "[default]", "[default]", "[default]")
	if left := f.cloud.All(octaviatest.Groups); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
