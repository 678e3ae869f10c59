package cloudsim_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// Each change of a call has the result that it would have had as a call of its own.
func TestChangeRoutes(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2), Knobs: api.Knobs{MaxRoutes: 2}})
	spec := func(cidr, target string) *api.RouteSpec {
		return &api.RouteSpec{Cluster: "one", DestinationCIDR: cidr, TargetInstance: target}
	}
	errs, err := cloud.Client.ChangeRoutes(t.Context(), []api.RouteChange{
		{Spec: spec("10.244.1.0/24", "i-00000001")},
		{Spec: spec("10.244.2.0/24", ""), TargetName: "node-002"},
		{Spec: spec("10.244.2.0/24", "i-00000001")}, // taken by the one before
		{Spec: spec("10.244.3.0/24", "i-00000001")}, // no room
		{Spec: spec("10.244.3.0/24", ""), TargetName: "stranger"},
		{Spec: spec("10.244.3.1/24", "i-9")},
		{ID: "r-9"},
		{ID: "r-9", Spec: spec("10.244.1.0/24", "i-00000001")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, err := range errs {
		status := http.StatusOK
		if err != nil {
			status = refusal(t, err).Status
		}
		got = append(got, status)
	}
	if diff := cmp.Diff([]int{200, 200, 409, 409, 400, 400, 404, 404}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	var ids []string
	must.NoError(t, cloud.Client.ListRoutes(t.Context(), "one", func(page []api.Route) error {
		for _, route := range page {
			ids = append(ids, route.ID)
		}
		return nil
	}))
	// A deletion makes room for a creation behind it.
	errs, err = cloud.Client.ChangeRoutes(t.Context(), []api.RouteChange{
		{ID: ids[0]}, {ID: ids[1], Spec: spec("10.244.2.0/24", "i-00000001")}, {Spec: spec("10.244.3.0/24", "i-00000001")}, {ID: ids[0]},
	})
	if err != nil || errs[0] != nil || errs[1] != nil || errs[2] != nil || !api.HasCode(errs[3], api.CodeNotFound) {
		t.Errorf("results: %v, %v", errs, err)
	}
	for _, count := range []int{0, api.MaxRouteChanges + 1} {
		_, err := cloud.Client.ChangeRoutes(t.Context(), make([]api.RouteChange, count))
		if diff := cmp.Diff([]string{"changes"}, fields(t, err)); diff != "" {
			t.Errorf("%d changes (-want +got):\n%s", count, diff)
		}
	}
}

func TestChangeTargets(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	spec := api.LoadBalancerSpec{
		Name: "web", Region: cloudsim.DefaultRegion, Tags: map[string]string{"owner": "a"}, Targets: []string{"i-00000001", "i-00000002"},
		Listeners: []api.Listener{{Protocol: api.ProtocolTCP, Port: 80, TargetPort: 30080}},
	}
	if _, err := cloud.Client.CreateLoadBalancer(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	cloud.Delete(t, "node-001")
	for range 2 { // the second changes nothing
		changed, err := cloud.Client.ChangeTargets(t.Context(), "web", api.TargetsChange{
			Tags: map[string]string{"owner": "a"}, Add: []string{"i-00000003"}, Remove: []string{"i-00000002", "i-9"},
		})
		if err != nil || changed.Generation != 2 || cmp.Diff([]string{"i-00000001", "i-00000003"}, changed.Targets) != "" {
			t.Errorf("changed: %+v, %v", changed, err)
		}
	}
	_, err := cloud.Client.ChangeTargets(t.Context(), "web", api.TargetsChange{Add: []string{"i-9", "i-00000002"}, Remove: []string{"i-00000002"}})
	if diff := cmp.Diff([]string{"add[0]", "add[1]"}, fields(t, err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	_, err = cloud.Client.ChangeTargets(t.Context(), "web", api.TargetsChange{Tags: map[string]string{"owner": "b"}})
	if !api.HasCode(err, api.CodePreconditionFailed) {
		t.Errorf("of another owner: %v", err)
	}
	if _, err = cloud.Client.ChangeTargets(t.Context(), "mail", api.TargetsChange{}); !api.HasCode(err, api.CodeNotFound) {
		t.Errorf("of none: %v", err)
	}
}
