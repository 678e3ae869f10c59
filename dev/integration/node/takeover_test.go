package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// A standby listened to the cloud before the last leader wrote down a change. When it leads, its old answer must not take
// the change back.
func TestANewLeaderKeepsWhatTheOldOneWrote(t *testing.T) {
	simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	first := start(t, options{Cloud: provider, Refresh: often})
	join(t, named("node-001"))
	waitInitialized(t, "node-001")
	warm := instances.New(instances.Options{Cloud: provider})
	if _, err := warm.Lookup(t.Context(), get(t, "node-001"), 0); err != nil {
		t.Fatal(err)
	}
	simulated.Change(t, "node-001", func(spec *api.InstanceSpec) { spec.MachineType = cloudsim.TypeLarge })
	waitFor(t, "node-001", "is large", hasLabel(corev1.LabelInstanceTypeStable, cloudsim.TypeLarge))
	first.Stop()

	// The new leader's first listing takes its time, and meanwhile something makes it look at the node.
	must.NoError(t, simulated.Service.SetKnobs(api.Knobs{Latency: metav1.Duration{Duration: 2 * time.Second}}))
	second := start(t, options{Cloud: provider, Inventory: warm})
	change(t, "node-001", label(corev1.LabelTopologyZone, "wrong")) // it follows its beta label
	poll.Until(t, "the second leader has compared all nodes", func(context.Context) error {
		if second.Metric(t, "mooring_node_refresh_duration_seconds") == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	waitFor(t, "node-001", "is back in its zone", hasLabel(corev1.LabelTopologyZone, "sim-1a"))
	if done := writes(t, second)["node-001"]; len(done) != 1 {
		t.Errorf("the new leader wrote %v, want one write: the zone, and nothing that the old leader had written", done)
	}
}
