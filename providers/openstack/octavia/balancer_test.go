package octavia

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
)

// TestCreation makes a load balancer by one call, waits by looks of one call each, and gives it a floating IP.
func TestCreation(t *testing.T) {
	f := newFixture(t, 2, annotations.Options{SubnetID: "nodes", CreateMonitor: true})
	_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(), nodes(1, 2))
	if !comesAgain(err) {
		t.Fatalf("creation: error %v, want to come again", err)
	}
	f.wantCalls("creation", "GET loadbalancers", "POST loadbalancers")
	for range 2 {
		f.later()
		if _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(), nodes(1, 2)); !comesAgain(err) {
			t.Fatalf("pending: error %v, want to come again", err)
		}
		f.wantCalls("pending", "GET loadbalancers")
	}
	f.later()
	status, _ := f.ensure(web(), nodes(1, 2))
	f.wantCalls("active", "GET loadbalancers", "GET floatingips", "GET networks", "POST floatingips")
	if got := addresses(status); got != "203.0.113.10 VIP" {
		t.Errorf("status %s", got)
	}
	if got := f.values(octaviatest.Members, "address"); !slices.Equal(got, []string{"10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2"}) {
		t.Errorf("members %v", got)
	}
	f.later()
	f.ensure(web(), nodes(1, 2))
	f.wantCalls("nothing to do", "GET loadbalancers", "GET listeners", "GET pools", "GET healthmonitors", "GET loadbalancers/status", "GET floatingips")
	f.later()
	got, exists, err := f.balancers.GetLoadBalancer(f.ctx, cluster, web())
	if err != nil || !exists || addresses(got) != "203.0.113.10 VIP" {
		t.Errorf("GetLoadBalancer: %v, exists %v, error %v", got, exists, err)
	}
	f.wantCalls("GetLoadBalancer", "GET loadbalancers", "GET floatingips")
}

// TestCreationWithOVN looks that monitors follow the creation, which the driver leaves out of it, and that the VIP is where the first node is.
func TestCreationWithOVN(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{Provider: "ovn", CreateMonitor: true})
	f.putPorts(1)
	f.ensure(web(), nodes(1))
	f.wantCalls("creation", "GET loadbalancers", "GET ports", "POST loadbalancers",
		"GET loadbalancers", "POST healthmonitors", "POST healthmonitors", "GET floatingips", "GET networks", "POST floatingips")
	lb := f.cloud.All(octaviatest.LoadBalancers)[0]
	if lb["vip_subnet_id"] != "nodes" || len(f.values(octaviatest.Monitors, "id")) != 2 {
		t.Errorf("load balancer %v with monitors %v", lb, f.values(octaviatest.Monitors, "name"))
	}
	// A port more: the driver gets stuck on a listener that comes after a monitor.
	service := web()
	service.Spec.Ports = append(service.Spec.Ports, v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 8080, NodePort: 30880})
	f.later()
	f.ensure(service, nodes(1))
	f.wantCalls("a port more", "GET loadbalancers", "GET listeners", "GET pools", "GET healthmonitors", "GET loadbalancers/status",
		"DELETE healthmonitors", "DELETE healthmonitors", "POST listeners", "POST pools", "PUT pools/members",
		"PUT pools", "PUT pools", "POST healthmonitors", "POST healthmonitors", "POST healthmonitors", "GET floatingips")
}

// TestStuckPool looks that a pool which the driver ovn left pending is changed before its members are, which octavia refuses until then.
func TestStuckPool(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", Provider: "ovn"})
	f.ensure(web(), nodes(1))
	f.cloud.Set(octaviatest.Pools, f.values(octaviatest.Pools, "id")[1], octaviatest.Object{"provisioning_status": "PENDING_UPDATE"})
	f.cloud.Calls()
	if _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(), nodes(1, 2)); err != nil {
		t.Error(err)
	}
	if got := f.writes(); !slices.Equal(got, []string{"PUT pools", "PUT pools/members", "PUT pools/members"}) {
		t.Errorf("writes %q", got)
	}
	f.cloud.Set(octaviatest.Pools, f.values(octaviatest.Pools, "id")[0], octaviatest.Object{"provisioning_status": "PENDING_UPDATE"})
	if err := f.balancers.UpdateLoadBalancer(f.ctx, cluster, web(), nodes(2)); err != nil {
		t.Error(err)
	}
}

// TestChanges looks that each change makes the calls that it needs and no others, whichever state the load balancer passes through.
func TestChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1.Service) []*v1.Node
		want   []string
	}{
		"a node more": {func(*v1.Service) []*v1.Node { return nodes(1, 2, 3) }, []string{"PUT pools/members", "PUT pools/members"}},
		"no nodes":    {func(*v1.Service) []*v1.Node { return nil }, []string{"PUT pools/members", "PUT pools/members"}},
		"source ranges": {func(s *v1.Service) []*v1.Node {
			s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.1/24"}
			return nodes(1, 2)
		}, []string{"PUT listeners", "PUT listeners"}},
		"algorithm": {func(s *v1.Service) []*v1.Node {
			s.Annotations[annotations.Method] = "SOURCE_IP"
			return nodes(1, 2)
		}, []string{"PUT pools", "PUT pools"}},
		"PROXY protocol": {func(s *v1.Service) []*v1.Node {
			s.Annotations[annotations.ProxyProtocol] = "v2"
			return nodes(1, 2)
		}, []string{"DELETE pools", "DELETE pools", "POST pools", "PUT pools/members", "POST pools", "PUT pools/members"}},
		"HTTP listeners": {func(s *v1.Service) []*v1.Node {
			s.Annotations[annotations.XForwardedFor] = "true"
			return nodes(1, 2)
		}, []string{"DELETE pools", "DELETE listeners", "DELETE pools", "DELETE listeners",
			"POST listeners", "POST pools", "PUT pools/members", "POST listeners", "POST pools", "PUT pools/members"}},
		"a port less": {func(s *v1.Service) []*v1.Node {
			s.Spec.Ports = s.Spec.Ports[:1]
			return nodes(1, 2)
		}, []string{"DELETE pools", "DELETE listeners"}},
		"another node port": {func(s *v1.Service) []*v1.Node {
			s.Spec.Ports[0].NodePort = 31000
			return nodes(1, 2)
		}, []string{"PUT pools/members"}},
		"monitors": {func(s *v1.Service) []*v1.Node {
			s.Annotations[annotations.Prefix+"enable-health-monitor"] = "true"
			return nodes(1, 2)
		}, []string{"POST healthmonitors", "POST healthmonitors"}},
		"monitors of local traffic": {func(s *v1.Service) []*v1.Node {
			s.Annotations[annotations.Prefix+"enable-health-monitor"] = "true"
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = v1.ServiceExternalTrafficPolicyLocal, 32000
			return nodes(1, 2)
		}, []string{"PUT pools/members", "PUT pools/members", "POST healthmonitors", "POST healthmonitors"}},
		"kept floating IP": {func(s *v1.Service) []*v1.Node {
			s.Annotations[annotations.Prefix+"keep-floatingip"] = "true"
			return nodes(1, 2)
		}, []string{"PUT loadbalancers"}},
		"internal": {func(s *v1.Service) []*v1.Node {
			s.Annotations[annotations.Internal] = "true"
			return nodes(1, 2)
		}, []string{"DELETE floatingips"}},
	} {
		for _, pending := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t, pending, annotations.Options{SubnetID: "nodes"})
				f.ensure(web(), nodes(1, 2))
				f.cloud.Calls()
				service := web()
				given := test.change(service)
				f.ensure(service, given)
				if writes := f.writes(); pending == 0 && !slices.Equal(writes, test.want) {
					t.Errorf("writes\n got %q\nwant %q", writes, test.want)
				}
				f.ensure(service, given)
				if writes := f.writes(); len(writes) > 0 {
					t.Errorf("nothing to do, and writes %q", writes)
				}
			})
		}
	}
}

// writes returns the calls that change something, since they were last asked for.
func (f *fixture) writes() []string {
	return slices.DeleteFunc(f.cloud.Calls(), func(call string) bool { return strings.HasPrefix(call, "GET ") })
}

// TestBackFromLocal looks that members lose the port that was probed.
func TestBackFromLocal(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", CreateMonitor: true})
	local := web()
	local.Spec.ExternalTrafficPolicy, local.Spec.HealthCheckNodePort = v1.ServiceExternalTrafficPolicyLocal, 32000
	f.ensure(local, nodes(1))
	if got := f.values(octaviatest.Members, "monitor_port"); !slices.Equal(got, []string{"32000", "32000"}) {
		t.Errorf("monitor ports %v", got)
	}
	f.cloud.Calls()
	f.ensure(web(), nodes(1))
	if got := f.values(octaviatest.Members, "monitor_port"); !slices.Equal(got, []string{"<nil>", "<nil>"}) {
		t.Errorf("monitor ports %v", got)
	}
	if got := f.writes(); !slices.Equal(got, []string{"PUT pools/members", "PUT pools/members", "DELETE healthmonitors", "DELETE healthmonitors",
		"POST healthmonitors", "POST healthmonitors"}) {
		t.Errorf("writes %q", got)
	}
}

func TestTargets(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	if err := f.balancers.UpdateLoadBalancer(f.ctx, cluster, web(), nodes(1)); err == nil {
		t.Error("there is no load balancer, and no error")
	}
	f.ensure(web(), nodes(1, 2))
	f.later()
	f.cloud.Calls()
	if err := f.balancers.UpdateLoadBalancer(f.ctx, cluster, web(), nodes(2, 3)); err != nil {
		t.Fatal(err)
	}
	f.wantCalls("update", "GET loadbalancers", "PUT pools/members", "PUT pools/members")
	if err := f.balancers.ChangeTargets(f.ctx, cluster, web(), nodes(4), nodes(2)); err != nil {
		t.Fatal(err)
	}
	f.wantCalls("change", "GET loadbalancers", "PUT pools/members", "PUT pools/members")
	got := f.values(octaviatest.Members, "name")
	slices.Sort(got)
	if !slices.Equal(got, []string{"node-3", "node-3", "node-4", "node-4"}) {
		t.Errorf("members %v", got)
	}
	if err := f.balancers.ChangeTargets(f.ctx, cluster, web(), nodes(4), nodes(2)); err != nil || len(f.writes()) != 0 {
		t.Errorf("the same change again: error %v", err)
	}
}

// TestTargetsOfWhatChangedMeanwhile changes the targets of a load balancer that another client has changed since the last look.
func TestTargetsOfWhatChangedMeanwhile(t *testing.T) {
	look := []string{"GET loadbalancers", "GET listeners", "GET pools", "GET loadbalancers/status"}
	write := []string{"PUT pools/members", "PUT pools/members"}
	for name, test := range map[string]struct {
		meanwhile func(*fixture)
		to        []*v1.Node
		want      [][]string // the calls of each try, of which only the last one succeeds
	}{
		"members that seem to be right": {func(f *fixture) {
			f.cloud.Set(octaviatest.Members, f.values(octaviatest.Members, "id")[0], octaviatest.Object{"address": "10.0.9.9"})
		}, nodes(1, 2), [][]string{slices.Concat(look, write[:1])}},
		"another manager": {func(f *fixture) {
			*f.balancers.seen = *newState()
		}, nodes(2, 3), [][]string{slices.Concat(look, write)}},
		"a change is refused": {func(f *fixture) {
			f.cloud.Fail("PUT pools/members", 1, http.StatusNotFound, "Pool not found")
		}, nodes(2, 3), [][]string{{"GET loadbalancers", "PUT pools/members"}, slices.Concat(look, write)}},
		"a listener more": {func(f *fixture) {
			lb := f.values(octaviatest.LoadBalancers, "id")[0]
			f.cloud.Put(octaviatest.Listeners, octaviatest.Object{"loadbalancer_id": lb, "protocol": "TCP", "protocol_port": 8080, "tags": []any{"theirs"}})
		}, nodes(2, 3), [][]string{slices.Concat(look, write)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
			f.ensure(web(), nodes(1, 2))
			test.meanwhile(f)
			f.later()
			f.cloud.Calls()
			for i, want := range test.want {
				err := f.balancers.UpdateLoadBalancer(f.ctx, cluster, web(), test.to)
				if (err == nil) != (i == len(test.want)-1) {
					t.Errorf("try %d: %v", i, err)
				}
				f.wantCalls(fmt.Sprint("try ", i), want...)
			}
			var want []string
			for _, node := range test.to {
				want = append(want, node.Name, node.Name)
			}
			got := f.values(octaviatest.Members, "name")
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("members %v, want %v", got, want)
			}
		})
	}
}

// TestDeletion deletes by one cascade, and is done when a look shows that the load balancer is gone.
func TestDeletion(t *testing.T) {
	f := newFixture(t, 2, annotations.Options{SubnetID: "nodes"})
	f.ensure(web(), nodes(1, 2))
	f.later()
	f.cloud.Calls()
	f.delete(web())
	f.wantCalls("deletion", "GET loadbalancers", "GET floatingips", "DELETE floatingips", "DELETE loadbalancers",
		"GET loadbalancers", "GET loadbalancers", "GET loadbalancers", "GET security-groups")
	for _, kind := range []string{octaviatest.LoadBalancers, octaviatest.Members, octaviatest.FloatingIPs} {
		if left := f.cloud.All(kind); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	f.delete(web())
}

// TestKeptFloatingIP looks that a floating IP that is kept is given to the Service again, even if the manager forgot the Service meanwhile.
func TestKeptFloatingIP(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	keep := web(annotations.Prefix+"keep-floatingip", "true")
	before, _ := f.ensure(keep, nodes(1))
	kept := f.values(octaviatest.FloatingIPs, "id")
	f.delete(web()) // as an orphan is: without annotations
	after, _ := f.ensure(keep, nodes(1))
	if addresses(before) != addresses(after) || !slices.Equal(f.values(octaviatest.FloatingIPs, "id"), kept) {
		t.Errorf("the address was %s and is %s", addresses(before), addresses(after))
	}
}

func TestSerialCalls(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", SerialCreate: true, SerialDelete: true, CreateMonitor: true})
	f.ensure(web(), nodes(1))
	f.cloud.Calls()
	f.ensure(web(), nodes(1))
	if writes := f.writes(); len(writes) > 0 {
		t.Errorf("nothing to do, and writes %q", writes)
	}
	f.delete(web())
	if got := f.writes(); !slices.Equal(got, []string{"DELETE floatingips", "DELETE pools", "DELETE listeners", "DELETE pools", "DELETE listeners",
		"DELETE loadbalancers"}) {
		t.Errorf("writes %q", got)
	}
}

// TestErrorState looks at each way to repair a load balancer that octavia says is in ERROR.
func TestErrorState(t *testing.T) {
	for name, test := range map[string]struct {
		repair annotations.Repair
		worked bool
		want   []string
	}{
		"never worked":     {annotations.RepairRecreate, false, []string{"DELETE loadbalancers"}},
		"worked":           {annotations.RepairRecreate, true, nil},
		"failover":         {annotations.RepairFailover, true, []string{"PUT loadbalancers/failover"}},
		"always recreated": {annotations.RepairAlways, true, []string{"DELETE loadbalancers"}},
		"never":            {annotations.RepairNever, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", Repair: test.repair})
			service := web()
			status, _ := f.ensure(service, nodes(1))
			if test.worked {
				service.Status.LoadBalancer = *status
			}
			f.cloud.Set(octaviatest.LoadBalancers, f.values(octaviatest.LoadBalancers, "id")[0], octaviatest.Object{"provisioning_status": "ERROR"})
			f.cloud.Calls()
			_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, nodes(1))
			if writes := f.writes(); !slices.Equal(writes, test.want) {
				t.Errorf("writes %q, want %q", writes, test.want)
			}
			if comesAgain(err) != (test.want != nil) {
				t.Errorf("error %v", err)
			}
			if test.want == nil {
				return
			}
			if again, _ := f.ensure(service, nodes(1)); addresses(again) != addresses(status) {
				t.Errorf("the address was %s and is %s", addresses(status), addresses(again))
			}
		})
	}
}

// TestRefusals looks at the types by which the manager decides.
func TestRefusals(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", Provider: "ovn"})
	for field, service := range map[string]*v1.Service{
		annotations.XForwardedFor:       web(annotations.XForwardedFor, "true"),
		annotations.TLSContainer:        web(annotations.TLSContainer, "https://keys/v1/secrets/1"),
		"spec.loadBalancerSourceRanges": web(v1.AnnotationLoadBalancerSourceRangesKey, "192.0.2.0/24"),
	} {
		_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, service, nodes(1))
		var unsupported *UnsupportedError
		if !provider.IsTerminal(err) || !errors.As(err, &unsupported) || unsupported.Driver != "ovn" || !strings.Contains(unsupported.Field, field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
	triedAgain := func(err error) bool {
		return !comesAgain(err) && !provider.IsTerminal(err) && !provider.IsThrottled(err)
	}
	for text, check := range map[string]func(error) bool{
		"403 Quota has been met for resources: Load Balancer": func(err error) bool {
			var q *QuotaError
			return errors.As(err, &q) && q.Resource == "Load Balancer" && !provider.IsTerminal(err)
		},
		"403 Policy does not allow this request":        provider.IsTerminal,
		"400 Subnet nodes not found.":                   triedAgain,
		"400 Invalid input for field/attribute vip":     provider.IsTerminal,
		"409 Load Balancer x is immutable":              comesAgain,
		"409 This listener already has a default pool":  comesAgain,
		"409 the port is taken":                         func(err error) bool { return !comesAgain(err) && !provider.IsTerminal(err) },
		"429 slow down":                                 provider.IsThrottled,
		"503 Project busy. Unable to lock the project.": comesAgain,
		"500 broken": triedAgain,
	} {
		code, fault, _ := strings.Cut(text, " ")
		status := map[string]int{"403": 403, "400": 400, "409": 409, "429": 429, "500": 500, "503": 503}[code]
		f.cloud.Fail("POST loadbalancers", 1, status, fault)
		if _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(), nodes(1)); err == nil || !check(err) || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: error %v", text, err)
		}
	}
	if _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(annotations.ProxyProtocol, "v3"), nodes(1)); !provider.IsTerminal(err) {
		t.Errorf("wrong annotation: error %v", err)
	}
}

// TestRefusedChange looks that a Service keeps what it has when it asks for a protocol that the driver does not have.
func TestRefusedChange(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", Provider: "ovn"})
	f.ensure(web(), nodes(1))
	f.cloud.Calls()
	for _, annotation := range []string{annotations.ProxyProtocol, annotations.XForwardedFor} {
		_, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(annotation, "true"), nodes(1))
		var unsupported *UnsupportedError
		if !provider.IsTerminal(err) || !errors.As(err, &unsupported) || !strings.Contains(unsupported.Field, annotation) {
			t.Errorf("%s: error %v", annotation, err)
		}
		if writes := f.writes(); len(writes) > 0 {
			t.Errorf("%s: writes %q", annotation, writes)
		}
	}
}

// TestListsAreComplete looks that an error of any part of a look ends it.
func TestListsAreComplete(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes", CreateMonitor: true})
	f.ensure(web(), nodes(1))
	f.cloud.Calls()
	for _, call := range []string{"GET loadbalancers", "GET listeners", "GET pools", "GET healthmonitors", "GET loadbalancers/status", "GET floatingips"} {
		f.later()
		f.cloud.Fail(call, 2, http.StatusInternalServerError, "broken") // once for a list that others share, and once for the one of its own
		if _, err := f.balancers.EnsureLoadBalancer(f.ctx, cluster, web(), nodes(1)); err == nil {
			t.Errorf("%s failed, and there is no error", call)
		}
		if writes := f.writes(); len(writes) > 0 {
			t.Errorf("%s failed, and writes are made: %q", call, writes)
		}
		f.cloud.Fail(call, 0, 0, "")
	}
}
