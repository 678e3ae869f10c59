package instances_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// For an hour the cloud lists instances that cannot be told apart. Those are left out: what else is listed is found, by ID and by name, and
// nothing is said to be gone. Then the list is sound, and a denial counts again.
func TestInstancesThatCannotBeToldApart(t *testing.T) {
	with := func(name, providerID string) provider.Instance {
		instance := instanceFor(name)
		instance.ProviderID = providerID
		return instance
	}
	tests := map[string]struct {
		wrong   []provider.Instance
		names   string
		missing string // the node without provider ID that gets a ProviderIDMissingError
	}{
		"a provider ID twice":       {[]provider.Instance{with("x", "sim://x"), with("y", "sim://x")}, `"sim://x"`, ""},
		"the same instance thrice":  {[]provider.Instance{with("x", "sim://x"), with("x", "sim://x"), with("x", "sim://x")}, `"sim://x"`, ""},
		"no provider ID":            {[]provider.Instance{with("x", "")}, `"x"`, "x"},
		"a scheme":                  {[]provider.Instance{with("x", "sim://")}, `"sim://"`, "x"},
		"a scheme twice":            {[]provider.Instance{with("x", "sim://"), with("y", "sim:///")}, `"sim://"`, "y"},
		"a long provider ID":        {[]provider.Instance{with("x", "sim://"+strings.Repeat("x", 5000))}, "bytes", ""},
		"the name of a healthy one": {[]provider.Instance{with("b", "sim://")}, `"sim://"`, "b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plugin := &fixedList{listed: append([]provider.Instance{instanceFor("a")}, append(test.wrong, instanceFor("b"))...)}
				inv := instances.New(instances.Options{Cloud: plugin})
				for start := time.Now(); time.Since(start) < time.Hour; time.Sleep(10 * time.Minute) {
					for _, healthy := range []*corev1.Node{node("a"), nodeWithID("a", "sim://a"), nodeWithID("b", "sim://b"), nodeWithID("b", "SIM:///b")} {
						if got := lookup(t, inv, healthy, 0); got.Status != instances.Found {
							t.Errorf("%s, %q: %s", healthy.Name, healthy.Spec.ProviderID, got.Status)
						}
					}
					for _, n := range []*corev1.Node{node("x"), node("gone"), nodeWithID("x", "sim://x"), nodeWithID("gone", "sim://gone")} {
						if got, err := inv.Lookup(t.Context(), n, 0); err == nil {
							t.Errorf("%s, %q: %s", n.Name, n.Spec.ProviderID, got.Status)
						}
					}
					_, err := inv.Lookup(t.Context(), nodeWithID("gone", "sim://gone"), 0)
					var invalid *instances.InvalidListError
					if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.names) || len(err.Error()) > 1000 {
						t.Errorf("error %v, want an InvalidListError that names %s", err, test.names)
					}
					if test.missing != "" {
						var missing *instances.ProviderIDMissingError
						if _, err := inv.Lookup(t.Context(), node(test.missing), 0); !errors.As(err, &missing) {
							t.Errorf("error %v, want a ProviderIDMissingError", err)
						}
					}
				}
				plugin.listed = []provider.Instance{instanceFor("a"), instanceFor("b")}
				if got := lookup(t, inv, nodeWithID("gone", "sim://gone"), 0); got.Status != instances.NotFound || got.Listed != 2 {
					t.Errorf("%s of %d by a list that is sound", got.Status, got.Listed)
				}
			})
		})
	}
}

// fixedList is a cloud that lists the same in no time.
type fixedList struct {
	*listingCloud
	listed []provider.Instance
}

func (c *fixedList) Capabilities() provider.Capabilities {
	return provider.Capabilities{ListInstances: func(_ context.Context, yield func([]provider.Instance) error) error {
		return yield(slices.Clone(c.listed))
	}}
}

// A watch goes on that shows an instance without a usable provider ID, and shows the others. When the instance gets its ID, it is shown too.
func TestAWatchLeavesOutWhatCannotBeToldApart(t *testing.T) {
	registry := prometheus.NewRegistry()
	leftOut := func() string {
		families, _ := registry.Gather()
		for _, family := range families {
			if family.GetName() == "mooring_inventory_instances_left_out" {
				return fmt.Sprint(family.GetMetric()[0].GetGauge().GetValue())
			}
		}
		return "not counted"
	}
	cloud := newWatchCloud("a")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		inv := instances.New(instances.Options{Cloud: cloud, Registerer: registry})
		var running sync.WaitGroup
		running.Go(func() { _ = inv.Start(ctx) })
		lookup(t, inv, node("a"), 0)
		time.Sleep(5 * time.Second)
		watches, listings := cloud.watched(), cloud.count()
		for _, id := range []string{"", "sim://"} {
			nameless := instanceFor("new")
			nameless.ProviderID = id
			cloud.tell(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: nameless})
			time.Sleep(time.Hour)
			if got := lookup(t, inv, node("a"), 2*time.Second); got.Status != instances.Found || cloud.count() != listings || leftOut() != "1" {
				t.Errorf("%s after %d listings, %s left out; want found by the watch, and 1", got.Status, cloud.count()-listings, leftOut())
			}
		}
		cloud.happens(provider.InstanceSet, "new")
		time.Sleep(2 * time.Second)
		if got := lookup(t, inv, node("new"), 2*time.Second); got.Status != instances.Found || cloud.count() != listings || leftOut() != "0" {
			t.Errorf("%s after %d listings, %s left out; want found by the watch, and 0", got.Status, cloud.count()-listings, leftOut())
		}
		if got := cloud.watched(); got != watches {
			t.Errorf("%d watches more", got-watches)
		}
		stop()
		running.Wait()
	})
}
