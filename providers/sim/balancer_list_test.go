package sim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

func TestListLoadBalancers(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3), Knobs: api.Knobs{PageSize: 1}})
	list := cloud.Capabilities().ListLoadBalancers
	if listed, err := list(t.Context(), ""); err != nil || len(listed) != 0 {
		t.Errorf("an empty cloud: %v, %v", listed, err)
	}
	first, second := webService(), webService()
	second.Name, second.UID = "api", "7d3c"
	ctx := provider.WithClusterUID(t.Context(), "cluster-1")
	for _, svc := range []*v1.Service{first, second} {
		if _, err := balancers(cloud).EnsureLoadBalancer(ctx, "", svc, []*v1.Node{node("node-002", "sim://i-00000002")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := simulated.Client.CreateLoadBalancer(t.Context(), api.LoadBalancerSpec{
		Name: "far", Region: "sim-1", Tags: map[string]string{TagCluster: "other", TagServiceUID: "x"},
		Listeners: []api.Listener{{Protocol: api.ProtocolTCP, Port: 1, TargetPort: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	want := []provider.LoadBalancer{
		{
			Name: balancerName, Service: types.NamespacedName{Namespace: "shop", Name: "web"}, ServiceUID: first.UID, ClusterUID: "cluster-1",
			Status: v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{vip("198.18.0.2")}}, Ports: first.Spec.Ports,
			Targets: []types.NodeName{"node-002"},
		},
		{
			Name: "a7d3c", Service: types.NamespacedName{Namespace: "shop", Name: "api"}, ServiceUID: second.UID, ClusterUID: "cluster-1",
			Status: v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{vip("198.18.0.3")}}, Ports: second.Spec.Ports,
			Targets: []types.NodeName{"node-002"},
		},
	}
	got, err := list(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	byName := cmpopts.SortSlices(func(a, b provider.LoadBalancer) bool { return a.Name < b.Name })
	if diff := cmp.Diff(want, got, byName); diff != "" {
		t.Errorf("load balancers (-want +got):\n%s", diff)
	}
}

// A list that is cut short is an error: what is missing in it would be taken for gone.
func TestListLoadBalancersIsCompleteOrAnError(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3), Knobs: api.Knobs{PageSize: 1}})
	for _, uid := range []types.UID{"a", "b", "c"} {
		svc := webService()
		svc.UID = uid
		if _, err := balancers(cloud).EnsureLoadBalancer(t.Context(), "", svc, []*v1.Node{node("node-001", "sim://i-00000001")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, operation := range []api.Operation{api.OpListLoadBalancers, api.OpListInstances} {
		if err := simulated.Service.AddFault(api.Fault{Operation: operation, Mode: api.FaultShortList, Skip: 1, Count: 1}); err != nil {
			t.Fatal(err)
		}
		if listed, err := cloud.Capabilities().ListLoadBalancers(t.Context(), ""); err == nil {
			t.Errorf("a short answer to %s: %d load balancers and no error", operation, len(listed))
		}
	}
}

// The cluster's UID is written with the load balancer; a caller that does not know it leaves it as it is.
func TestClusterUIDIsKept(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{})
	tagged := func(uid types.UID) string {
		t.Helper()
		ctx := t.Context()
		if uid != "" {
			ctx = provider.WithClusterUID(ctx, uid)
		}
		if _, err := balancers(cloud).EnsureLoadBalancer(ctx, "", webService(), nil); err != nil {
			t.Fatal(err)
		}
		got, err := simulated.Client.GetLoadBalancer(t.Context(), balancerName)
		if err != nil {
			t.Fatal(err)
		}
		return got.Tags[TagClusterUID]
	}
	for _, step := range []struct {
		uid    types.UID
		want   string
		writes int64
	}{{"", "", 1}, {"one", "one", 2}, {"", "one", 2}, {"two", "two", 3}} {
		if got := tagged(step.uid); got != step.want || writes(simulated) != step.writes {
			t.Errorf("with cluster UID %q: tag %q after %d writes, want %q after %d", step.uid, got, writes(simulated), step.want, step.writes)
		}
	}
}
