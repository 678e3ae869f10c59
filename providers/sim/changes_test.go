package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

func TestChangeRoutes(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	cloud.config.RouteBatch = 10
	routes, _ := cloud.Routes()
	change, ctx := provider.CapabilitiesOf(cloud).ChangeRoutes, t.Context()
	to := func(number, node int) *cloudprovider.Route {
		return &cloudprovider.Route{TargetNode: types.NodeName(fmt.Sprintf("node-%03d", node)), DestinationCIDR: fmt.Sprintf("10.244.%d.0/24", number)}
	}
	listed := func() (lines []string, byCIDR map[string]*cloudprovider.Route) {
		all, err := routes.ListRoutes(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		byCIDR = map[string]*cloudprovider.Route{}
		for _, route := range all {
			lines = append(lines, route.DestinationCIDR+" by "+string(route.TargetNode))
			byCIDR[route.DestinationCIDR] = route
		}
		return lines, byCIDR
	}
	results, err := change(ctx, "", []provider.RouteChange{{New: to(1, 1), NameHint: "a"}, {New: to(2, 2), NameHint: "b"}, {New: to(3, 9)}, {New: to(4, 1)}})
	if err != nil || len(results) != 4 || results[0] != nil || results[1] != nil || results[2] == nil || results[3] != nil {
		t.Fatalf("creations, one of them to a node without an instance: %v, %v", results, err)
	}
	if provider.IsTerminal(results[2]) {
		t.Errorf("%v is terminal, although instances come and go", results[2])
	}
	_, before := listed()
	simulated.Service.ResetCounts()
	changes := []provider.RouteChange{
		{Old: before["10.244.1.0/24"], New: to(1, 3)}, {Old: before["10.244.2.0/24"]}, {New: to(4, 1)}, {New: to(4, 2)}, {New: to(5, 2)},
	}
	for range 2 { // making them again is no error
		results, err = change(ctx, "", changes)
		if err != nil || results[0] != nil || results[1] != nil || results[2] != nil || results[3] == nil || results[4] != nil {
			t.Errorf("changes, one of them of a destination that is taken: %v, %v", results, err)
		}
	}
	if got := simulated.Service.Counts().Received(); got != 2 {
		t.Errorf("%d calls of the cloud, want one for each batch", got)
	}
	want := []string{"10.244.1.0/24 by node-003", "10.244.4.0/24 by node-001", "10.244.5.0/24 by node-002"}
	if got, _ := listed(); cmp.Diff(want, got) != "" {
		t.Errorf("routes (-want +got):\n%s", cmp.Diff(want, got))
	}
	if err := simulated.Service.AddFault(api.Fault{Operation: api.OpChangeRoutes, Mode: api.FaultStatus, Status: 429, Count: 1}); err != nil {
		t.Fatal(err)
	}
	if results, err := change(ctx, "", changes); results != nil || !provider.IsThrottled(err) {
		t.Errorf("refused: %v, %v", results, err)
	}
}

func TestChangeTargets(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	cloud.config.ChangeTargets = true
	lb, ctx, svc := balancers(cloud), t.Context(), webService()
	change := provider.CapabilitiesOf(cloud).ChangeTargets
	one, two, three := node("node-001", "sim://i-00000001"), node("node-002", "sim://i-00000002"), node("node-003", "sim://i-00000003")
	if err := change(ctx, "", svc, []*v1.Node{one}, nil); err == nil {
		t.Error("the targets of no load balancer could be changed")
	}
	if _, err := lb.EnsureLoadBalancer(ctx, "", svc, []*v1.Node{one, two}); err != nil {
		t.Fatal(err)
	}
	simulated.Delete(t, "node-002")
	simulated.Service.ResetCounts()
	for range 2 {
		if err := change(ctx, "", svc, []*v1.Node{three}, []*v1.Node{two}); err != nil {
			t.Error(err)
		}
	}
	balancer := simulated.Service.LoadBalancers()[0]
	if diff := cmp.Diff([]string{"i-00000001", "i-00000003"}, balancer.Targets); diff != "" || balancer.Generation != 2 {
		t.Errorf("generation %d, targets (-want +got):\n%s", balancer.Generation, diff)
	}
	if got := simulated.Service.Counts().Received(); got != 2 {
		t.Errorf("%d calls, want one for each change", got)
	}
	if err := change(ctx, "", svc, []*v1.Node{two}, nil); err == nil || provider.IsTerminal(err) {
		t.Errorf("a target whose instance is gone: %v", err)
	}
	elsewhere := *cloud
	elsewhere.config.ClusterName = "elsewhere"
	if err := provider.CapabilitiesOf(&elsewhere).ChangeTargets(ctx, "", svc, nil, []*v1.Node{one}); err == nil {
		t.Error("a load balancer of another cluster could be changed")
	}
	if err := simulated.Service.SetKnobs(api.Knobs{LoadBalancerDelay: metav1.Duration{Duration: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	other := webService()
	other.UID = "another"
	_, _ = lb.EnsureLoadBalancer(ctx, "", other, nil)
	if err := change(ctx, "", other, []*v1.Node{one}, nil); err == nil {
		t.Error("a load balancer that is pending could be changed")
	}
}
