package sim

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

func TestRoutes(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3), Knobs: api.Knobs{PageSize: 1}})
	routes, _ := cloud.Routes()
	ctx := t.Context()
	first := &cloudprovider.Route{TargetNode: "node-001", DestinationCIDR: "10.244.1.0/24"}
	second := &cloudprovider.Route{TargetNode: "node-002", DestinationCIDR: "10.244.2.0/24"}
	for _, route := range []*cloudprovider.Route{first, second, first} {
		if err := routes.CreateRoute(ctx, "ignored", "hint", route); err != nil {
			t.Fatal(err)
		}
	}
	foreign := api.RouteSpec{Cluster: "another", DestinationCIDR: "10.244.1.0/24", TargetInstance: "i-00000003"}
	if _, err := simulated.Client.CreateRoute(ctx, foreign); err != nil {
		t.Fatal(err)
	}
	simulated.Delete(t, "node-002")
	listed, err := routes.ListRoutes(ctx, "ignored")
	if err != nil {
		t.Fatal(err)
	}
	want := []*cloudprovider.Route{
		{Name: listed[0].Name, TargetNode: "node-001", DestinationCIDR: "10.244.1.0/24"},
		{Name: listed[1].Name, DestinationCIDR: "10.244.2.0/24", Blackhole: true},
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("routes of the cluster %s (-want +got):\n%s", simtest.ClusterName, diff)
	}
	moved := &cloudprovider.Route{TargetNode: "node-003", DestinationCIDR: "10.244.1.0/24"}
	if err := routes.CreateRoute(ctx, "", "", moved); !api.HasCode(err, api.CodeConflict) || provider.IsTerminal(err) {
		t.Errorf("a route to another target: %v, want a conflict that may be tried again", err)
	}
	gone := &cloudprovider.Route{TargetNode: "node-002", DestinationCIDR: "10.244.9.0/24"}
	if err := routes.CreateRoute(ctx, "", "", gone); !errors.Is(err, provider.ErrInstanceNotFound) {
		t.Errorf("a route to a node without an instance: %v", err)
	}
	for range 2 { // the second time it is gone already
		for _, route := range listed {
			if err := routes.DeleteRoute(ctx, "", route); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := routes.ListRoutes(ctx, ""); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := simulated.Service.AddFault(api.Fault{Operation: api.OpListRoutes, Mode: api.FaultShortList, Count: 1}); err != nil {
		t.Fatal(err)
	}
	for _, route := range []*cloudprovider.Route{first, {TargetNode: "node-003", DestinationCIDR: "10.244.3.0/24"}} {
		if err := routes.CreateRoute(ctx, "", "", route); err != nil {
			t.Fatal(err)
		}
	}
	if short, err := routes.ListRoutes(ctx, ""); err == nil {
		t.Errorf("a list with a missing page was accepted: %v", short)
	}
}

func TestReplaceRoute(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	routes, _ := cloud.Routes()
	ctx := t.Context()
	if err := routes.CreateRoute(ctx, "", "hint", &cloudprovider.Route{TargetNode: "node-001", DestinationCIDR: "10.244.1.0/24"}); err != nil {
		t.Fatal(err)
	}
	simulated.Delete(t, "node-001")
	before, err := routes.ListRoutes(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	replace := provider.CapabilitiesOf(cloud).ReplaceRoute
	if err := replace(ctx, "", before[0], &cloudprovider.Route{TargetNode: "node-002", DestinationCIDR: "10.244.1.0/24"}); err != nil {
		t.Fatal(err)
	}
	after, err := routes.ListRoutes(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	want := []*cloudprovider.Route{{Name: before[0].Name, TargetNode: "node-002", DestinationCIDR: "10.244.1.0/24"}}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if err := replace(ctx, "", before[0], &cloudprovider.Route{TargetNode: "node-001"}); !errors.Is(err, provider.ErrInstanceNotFound) {
		t.Errorf("a replacement to a node without an instance: %v", err)
	}
}

func TestDeclaredRouteLimits(t *testing.T) {
	cloud, err := New(Config{Endpoint: "http://cloud.example", TokenFile: tempFile(t, "secret"), MaxRoutes: 50, RouteWrites: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := provider.CapabilitiesOf(cloud); got.MaxRoutes != 50 || got.RouteWrites != 2 || got.ChangeRoutes != nil || got.ChangeTargets != nil {
		t.Errorf("declared: %d routes, %d writes, batches %t, differences %t; want 50 and 2, as configured",
			got.MaxRoutes, got.RouteWrites, got.ChangeRoutes != nil, got.ChangeTargets != nil)
	}
}
