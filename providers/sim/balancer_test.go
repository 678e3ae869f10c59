package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

func webService() *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "0b5cf4a2-0a59-4f3f-8c6e-2f0e6e1f7a11"},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			Ports: []v1.ServicePort{{Name: "http", Protocol: v1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
}

const balancerName = "a0b5cf4a20a594f3f8c6e2f0e6e1f7a1"

func balancers(cloud *Cloud) cloudprovider.LoadBalancer {
	lb, _ := cloud.LoadBalancer()
	return lb
}

// writes returns how many calls changed load balancers.
func writes(simulated *simtest.Cloud) int64 {
	return simulated.Service.Counts().Received(api.OpCreateLoadBalancer, api.OpUpdateLoadBalancer, api.OpDeleteLoadBalancer)
}

func vip(address string) v1.LoadBalancerIngress {
	mode := v1.LoadBalancerIPModeVIP
	return v1.LoadBalancerIngress{IP: address, IPMode: &mode}
}

func TestLoadBalancerLife(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	lb, ctx, svc := balancers(cloud), t.Context(), webService()
	nodes := []*v1.Node{node("node-002", "sim://i-00000002"), node("node-001", ""), node("far", "aws:///a/i-9"), node("unknown", "")}

	if status, exists, err := lb.GetLoadBalancer(ctx, "", svc); status != nil || exists || err != nil {
		t.Errorf("before: %v, %v, %v", status, exists, err)
	}
	want := &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{vip("198.18.0.2")}}
	for range 3 { // ensuring what is there already writes nothing
		status, err := lb.EnsureLoadBalancer(ctx, "", svc, nodes)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	}
	if n := writes(simulated); n != 1 {
		t.Errorf("%d writes for one load balancer, want 1", n)
	}
	got, err := simulated.Client.GetLoadBalancer(ctx, lb.GetLoadBalancerName(ctx, "", svc))
	if err != nil {
		t.Fatal(err)
	}
	wantSpec := api.LoadBalancerSpec{
		Name: balancerName, Region: "sim-1", IPFamilies: []api.IPFamily{api.IPv4}, Addressing: api.AddressingIP, IPMode: api.IPModeVIP,
		Tags:      map[string]string{TagCluster: simtest.ClusterName, TagServiceUID: string(svc.UID), TagService: "shop/web"},
		Listeners: []api.Listener{{Name: "http", Protocol: api.ProtocolTCP, Port: 80, TargetPort: 30080}},
		Targets:   []string{"i-00000001", "i-00000002"},
	}
	if diff := cmp.Diff(wantSpec, got.LoadBalancerSpec); diff != "" {
		t.Errorf("load balancer (-want +got):\n%s", diff)
	}

}

func TestLoadBalancerChanges(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	lb, ctx, svc := balancers(cloud), t.Context(), webService()
	want, err := lb.EnsureLoadBalancer(ctx, "", svc, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to change
		if err := lb.UpdateLoadBalancer(ctx, "", svc, []*v1.Node{node("node-003", "sim://i-00000003")}); err != nil {
			t.Fatal(err)
		}
	}
	if n := writes(simulated); n != 2 {
		t.Errorf("%d writes after a change of targets, want 2", n)
	}
	svc.Spec.Ports[0].NodePort = 31000
	if _, err := lb.EnsureLoadBalancer(ctx, "", svc, []*v1.Node{node("node-003", "sim://i-00000003")}); err != nil {
		t.Fatal(err)
	}
	got, err := simulated.Client.GetLoadBalancer(ctx, balancerName)
	if err != nil || got.Listeners[0].TargetPort != 31000 || !cmp.Equal(got.Targets, []string{"i-00000003"}) || got.Addresses[0] != "198.18.0.2" {
		t.Errorf("after changes: %+v, %v", got, err)
	}
	status, exists, err := lb.GetLoadBalancer(ctx, "", svc)
	if err != nil || !exists || !cmp.Equal(want, status) {
		t.Errorf("get: %v, %v, %v", status, exists, err)
	}
	for range 2 { // the second time it is gone already
		if err := lb.EnsureLoadBalancerDeleted(ctx, "", svc); err != nil {
			t.Error(err)
		}
	}
	if _, err := simulated.Client.GetLoadBalancer(ctx, balancerName); !api.HasCode(err, api.CodeNotFound) {
		t.Errorf("after deletion: %v", err)
	}
	if err := lb.UpdateLoadBalancer(ctx, "", svc, nil); err == nil {
		t.Error("updating a load balancer that does not exist is no error")
	}
}

func TestLoadBalancerStatusForms(t *testing.T) {
	proxy := v1.LoadBalancerIPModeProxy
	for name, c := range map[string]struct {
		change func(*v1.Service)
		want   []v1.LoadBalancerIngress
	}{
		"dual stack": {
			func(s *v1.Service) {
				s.UID, s.Spec.IPFamilies = "1", []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
				s.Spec.LoadBalancerIP = "198.18.7.7"
			},
			[]v1.LoadBalancerIngress{vip("198.18.7.7"), vip("2001:db8:1b::2")},
		},
		"host name": {
			func(s *v1.Service) { s.UID, s.Annotations = "2", map[string]string{AnnotationAddressing: "hostname"} },
			[]v1.LoadBalancerIngress{{Hostname: "a2.lb.sim-1.sim.example"}},
		},
		"proxy": {
			func(s *v1.Service) {
				s.UID, s.Annotations = "3", map[string]string{AnnotationIPMode: "Proxy"}
				s.Spec.LoadBalancerIP = "198.18.8.8"
			},
			[]v1.LoadBalancerIngress{{IP: "198.18.8.8", IPMode: &proxy}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, cloud := start(t, cloudsim.Options{})
			svc := webService()
			c.change(svc)
			status, err := balancers(cloud).EnsureLoadBalancer(t.Context(), "", svc, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, status.Ingress); diff != "" {
				t.Errorf("ingress (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadBalancerPending(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1_000_000_000, 0))
	simulated, cloud := start(t, cloudsim.Options{
		Clock: clock, Seed: cloudsim.DefaultSeed(1), Knobs: api.Knobs{LoadBalancerDelay: metav1.Duration{Duration: time.Minute}},
	})
	lb, ctx, svc := balancers(cloud), t.Context(), webService()
	nodes := []*v1.Node{node("node-001", "sim://i-00000001")}
	isRetry := func(err error) bool {
		var retry *cloudproviderapi.RetryError
		return errors.As(err, &retry) && retry.RetryAfter() == pendingPoll
	}
	for range 2 {
		if _, err := lb.EnsureLoadBalancer(ctx, "", svc, nil); !isRetry(err) {
			t.Errorf("ensuring while it is pending: %v", err)
		}
	}
	if err := lb.UpdateLoadBalancer(ctx, "", svc, nodes); !isRetry(err) {
		t.Errorf("updating while it is pending: %v", err)
	}
	if status, exists, err := lb.GetLoadBalancer(ctx, "", svc); err != nil || !exists || len(status.Ingress) != 0 {
		t.Errorf("get while it is pending: %v, %v, %v", status, exists, err)
	}
	clock.Step(time.Minute)
	if status, err := lb.EnsureLoadBalancer(ctx, "", svc, nodes); err != nil || len(status.Ingress) != 1 {
		t.Errorf("ensuring when it is active: %v, %v", status, err)
	}
	if n := writes(simulated); n != 2 {
		t.Errorf("%d writes, want the creation and the change of targets", n)
	}
}

func TestLoadBalancerWhoseCreationFailedIsReplaced(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{})
	if err := simulated.Service.AddFault(api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultAsync, Count: 1}); err != nil {
		t.Fatal(err)
	}
	lb, svc := balancers(cloud), webService()
	if _, err := lb.EnsureLoadBalancer(t.Context(), "", svc, nil); err == nil {
		t.Error("a failed load balancer has a status")
	}
	if err := lb.UpdateLoadBalancer(t.Context(), "", svc, nil); err == nil {
		t.Error("a failed load balancer was updated")
	}
	if status, err := lb.EnsureLoadBalancer(t.Context(), "", svc, nil); err != nil || len(status.Ingress) != 1 {
		t.Errorf("ensuring it again: %v, %v", status, err)
	}
}

// An answer was lost: the creation happened, the caller does not know. The next call finds it and creates no second one.
func TestLoadBalancerAfterALostAnswer(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{})
	if err := simulated.Service.AddFault(api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultTruncate, Count: 1}); err != nil {
		t.Fatal(err)
	}
	lb, svc := balancers(cloud), webService()
	if _, err := lb.EnsureLoadBalancer(t.Context(), "", svc, nil); err == nil || provider.IsTerminal(err) {
		t.Errorf("the lost answer: %v, want an error that may be tried again", err)
	}
	if status, err := lb.EnsureLoadBalancer(t.Context(), "", svc, nil); err != nil || len(status.Ingress) != 1 {
		t.Errorf("the next call: %v, %v", status, err)
	}
	if n := writes(simulated); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
}

func TestLoadBalancerOfAnotherOwner(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"no tags":         nil,
		"another cluster": {TagCluster: "another", TagServiceUID: string(webService().UID)},
		"another service": {TagCluster: simtest.ClusterName, TagServiceUID: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			simulated, cloud := start(t, cloudsim.Options{})
			lb, ctx, svc := balancers(cloud), t.Context(), webService()
			before, err := simulated.Client.CreateLoadBalancer(ctx, api.LoadBalancerSpec{
				Name: balancerName, Region: "sim-1", Tags: tags, Listeners: []api.Listener{{Protocol: "TCP", Port: 1, TargetPort: 1}},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, ensured := lb.EnsureLoadBalancer(ctx, "", svc, nil)
			_, exists, got := lb.GetLoadBalancer(ctx, "", svc)
			errs := map[string]error{
				"ensure": ensured, "get": got, "update": lb.UpdateLoadBalancer(ctx, "", svc, nil), "delete": lb.EnsureLoadBalancerDeleted(ctx, "", svc),
			}
			for call, err := range errs {
				var owned *OwnedByOtherError
				if !errors.As(err, &owned) || exists {
					t.Errorf("%s: %v, exists %v; want an OwnedByOtherError", call, err, exists)
				}
			}
			after, err := simulated.Client.GetLoadBalancer(ctx, balancerName)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("it was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestLoadBalancerErrors(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	lb, ctx := balancers(cloud), t.Context()
	bad := webService()
	bad.Annotations = map[string]string{AnnotationAddressing: "pigeon"}
	if _, err := lb.EnsureLoadBalancer(ctx, "", bad, nil); !provider.IsTerminal(err) {
		t.Errorf("an annotation that the cloud refuses: %v, want a terminal error", err)
	}
	noPort := webService()
	noPort.Spec.Ports[0].NodePort = 0
	if _, err := lb.EnsureLoadBalancer(ctx, "", noPort, nil); !provider.IsTerminal(err) {
		t.Errorf("no node port: %v, want a terminal error", err)
	}
	gone := []*v1.Node{node("gone", "sim://i-00000099")}
	if _, err := lb.EnsureLoadBalancer(ctx, "", webService(), gone); err == nil || provider.IsTerminal(err) {
		t.Errorf("a target that is gone: %v, want an error that may be tried again", err)
	}
	if err := simulated.Service.AddFault(api.Fault{Operation: api.OpGetLoadBalancer, Mode: api.FaultStatus, Status: 403, Count: 1}); err != nil {
		t.Fatal(err)
	}
	if _, exists, err := lb.GetLoadBalancer(ctx, "", webService()); exists || !provider.IsTerminal(err) {
		t.Errorf("forbidden: exists %v, %v; want a terminal error", exists, err)
	}
}

// Planning over the applied result plans nothing, for any Service and any targets.
func TestBalancerPlanHasAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		svc := webService()
		svc.Spec.LoadBalancerSourceRanges = rapid.SliceOfN(rapid.SampledFrom([]string{"10.1.2.3/8", "::1/64", "x"}), 0, 2).Draw(t, "ranges")
		svc.Spec.IPFamilies = rapid.SampledFrom([][]v1.IPFamily{nil, {v1.IPv6Protocol}, {v1.IPv4Protocol, v1.IPv6Protocol}}).Draw(t, "families")
		targets := rapid.SliceOfN(rapid.StringMatching(`i-[0-3]`), 0, 6).Draw(t, "targets")
		desired, err := desiredBalancer("c", "r", svc, targets)
		if err != nil {
			t.Fatal(err)
		}
		action, err := planBalancer(desired, nil)
		if err != nil || action != balancerCreate {
			t.Fatalf("from nothing: %s, %v", action, err)
		}
		applied := &api.LoadBalancer{LoadBalancerSpec: desired, State: api.LoadBalancerActive}
		shuffled, err := desiredBalancer("c", "r", svc, rapid.Permutation(targets).Draw(t, "order"))
		if err != nil {
			t.Fatal(err)
		}
		if action, err = planBalancer(shuffled, applied); err != nil || action != balancerKeep {
			t.Fatalf("over the applied result: %s, %v\n%s", action, err, cmp.Diff(desired, shuffled, cmpopts.EquateEmpty()))
		}
	})
}
