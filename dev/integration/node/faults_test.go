package node_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

func seconds(n float64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n * float64(time.Second))}
}

// With each fault of the cloud a node gets an event, keeps its taint, and is initialized when the fault is over. A wrong answer
// initializes no node wrongly and writes nothing to nodes that are initialized. One that a list denies is asked for alone, and is initialized.
func TestFaultsOfTheCloud(t *testing.T) {
	tests := map[string]struct {
		fault  api.Fault
		reason string
	}{
		"server error": {api.Fault{Mode: api.FaultStatus, Status: 503}, "CloudError: Could not initialize the node: listing"},
		"over quota": {
			api.Fault{Mode: api.FaultStatus, Status: 429, RetryAfter: seconds(1)},
			"CloudError: Could not initialize the node: listing",
		},
		"empty list":       {api.Fault{Mode: api.FaultEmpty}, ""},
		"hanging":          {api.Fault{Mode: api.FaultHang}, "CloudError"},
		"truncated":        {api.Fault{Mode: api.FaultTruncate}, "CloudError"},
		"malformed":        {api.Fault{Mode: api.FaultMalformed}, "CloudError"},
		"short list":       {api.Fault{Mode: api.FaultShortList}, "CloudError"},
		"second page lost": {api.Fault{Mode: api.FaultStatus, Status: 500, Skip: 1}, "CloudError"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := strings.ReplaceAll(name, " ", "-")
			old, late := pool+"-node-005", pool+"-late"
			simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: seedOf(pool, 5), Knobs: api.Knobs{PageSize: 2}})
			m := start(t, options{
				Cloud: provider, Pool: pool, Refresh: 300 * time.Millisecond, Calls: cloud.Options{CallTimeout: 500 * time.Millisecond},
			})
			join(t, inPool(pool, named(old)))
			waitInitialized(t, old)
			before := len(writes(t, m)[old])

			test.fault.Operation, test.fault.Count = api.OpListInstances, 1_000_000
			must.NoError(t, simulated.Service.AddFault(test.fault))
			simulated.Create(t, instanceNamed(late)) // no listing from before the fault knows it
			join(t, inPool(pool, named(late)))
			if test.reason == "" {
				waitInitialized(t, late)
			} else {
				waitForEvent(t, late, "Warning "+test.reason)
			}
			listings := m.Metric(t, "mooring_inventory_listings_total")
			poll.Until(t, "the refresh meets the fault, too", func(context.Context) error {
				if now := m.Metric(t, "mooring_inventory_listings_total"); now < listings+1 {
					return fmt.Errorf("%v listings since", now-listings)
				}
				return nil
			})
			if n := get(t, late); test.reason != "" && (!ownership.Uninitialized(n) || len(writes(t, m)[late]) > 0) {
				t.Errorf("the node was written: %v", showing(n))
			}
			if done := writes(t, m)[old]; len(done) != before {
				t.Errorf("an initialized node was written during the fault: %v", done)
			}
			simulated.Service.ClearFaults()
			touchUntilInitialized(t, late) // or a few seconds later by itself
		})
	}
}

// instanceNamed is an instance of that name.
func instanceNamed(name string) api.InstanceSpec {
	spec := cloudsim.DefaultInstance(100)
	spec.Name = name
	return spec
}

// touchUntilInitialized changes a node until it is initialized, so it does not wait out its pause.
func touchUntilInitialized(t *testing.T, name string) {
	t.Helper()
	touched := 0
	poll.Until(t, "node "+name+" is initialized", func(context.Context) error {
		if !ownership.Uninitialized(get(t, name)) {
			return nil
		}
		touched++
		change(t, name, label("touched", strconv.Itoa(touched)))
		return fmt.Errorf("the taint is there; events: %q", eventsOf(t, name))
	})
}

func TestBadCredentialsAreNamed(t *testing.T) {
	simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	must.NoError(t, simulated.Service.AddFault(api.Fault{Operation: api.AnyOperation, Mode: api.FaultStatus, Status: 401, Count: 1000}))
	start(t, options{Cloud: provider})
	join(t, named("node-001"))
	if event := waitForEvent(t, "node-001", "Warning CloudError"); !strings.Contains(event, "credentials") {
		t.Errorf("the event does not mention credentials: %s", event)
	}
	simulated.Service.ClearFaults()
	touchUntilInitialized(t, "node-001") // or some seconds later by itself
}

// Knobs that make the cloud slow or late do not make a node fail for good.
func TestKnobsOfTheCloud(t *testing.T) {
	tests := map[string]api.Knobs{
		"latency":          {Latency: seconds(0.3), LatencyJitter: seconds(0.2)},
		"small pages":      {PageSize: 1},
		"a quota":          {PageSize: 3, Quota: &api.Quota{RequestsPerSecond: 4, Burst: 2}},
		"lists lag behind": {ListLag: seconds(1)},
		"pending at first": {InstanceDelay: seconds(1)},
		"everything at once": {
			Latency: seconds(0.05), PageSize: 3, ListLag: seconds(0.5), Quota: &api.Quota{RequestsPerSecond: 10, Burst: 5},
		},
	}
	for name, knobs := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := strings.ReplaceAll(name, " ", "-")
			old, late := pool+"-node-001", pool+"-late"
			simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: seedOf(pool, 5)})
			must.NoError(t, simulated.Service.SetKnobs(knobs))
			start(t, options{Cloud: provider, Pool: pool})
			simulated.Create(t, instanceNamed(late)) // a machine that comes up and joins at once
			join(t, inPool(pool, named(old)), inPool(pool, named(late)))
			for name, id := range map[string]string{old: "sim://i-00000001", late: "sim://i-00000006"} {
				if n := waitInitialized(t, name); n.Spec.ProviderID != id {
					t.Errorf("%s has the provider ID %q, want %q", name, n.Spec.ProviderID, id)
				}
			}
		})
	}
}
