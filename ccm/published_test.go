package ccm

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mooring-ccm/mooring/provider"
)

// A plugin may serve the registry of the Kubernetes libraries on a port of its own, where the reference's metrics are.
func TestMetricsOfTheReferenceAreInTheRegistryOfTheLibraries(t *testing.T) {
	for _, passes := range []float64{1, 2} { // the younger of two managers in one process
		registry := prometheus.NewRegistry()
		factory := promauto.With(registry)
		factory.NewCounterVec(prometheus.CounterOpts{Name: "route_controller_route_sync_total", Help: "h"}, []string{"outcome", "trigger"}).
			WithLabelValues("noop", "periodic").Add(passes)
		factory.NewGauge(prometheus.GaugeOpts{Name: "mooring_route_missing", Help: "h"})
		if err := libraries.show(registry); err != nil {
			t.Fatal(err)
		}
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := 0.0
		for _, family := range families {
			switch family.GetName() {
			case "route_controller_route_sync_total":
				found += family.GetMetric()[0].GetCounter().GetValue()
				if labels := family.GetMetric()[0].GetLabel(); len(labels) != 2 || labels[0].GetValue() != "noop" {
					t.Errorf("labels %v", labels)
				}
			case "mooring_route_missing":
				t.Error("a metric that the reference does not have is shown")
			}
		}
		if found != passes {
			t.Errorf("%v passes are shown, want %v", found, passes)
		}
	}
}

func TestNamesOfRunningControllersAreTheReferences(t *testing.T) {
	for name, want := range map[string]string{
		"cloud-node-controller": "cloud-node", "cloud-node-lifecycle-controller": "cloud-node-lifecycle", "node-route-controller": "route",
		"service-lb-controller": "service", "tagging": "tagging",
	} {
		if got := metricName(name); got != want {
			t.Errorf("%s is called %s, want %s", name, got, want)
		}
	}
}

// A controller whose flags leave it nothing to do is in no health check.
func TestAControllerThatAddsNothingDoesNotRun(t *testing.T) {
	for name, add := range map[string]func(*scopedManager) error{
		"nothing": func(*scopedManager) error { return nil },
		"a check": func(m *scopedManager) error {
			return m.AddHealthzCheck("own", func(*http.Request) error { return nil })
		},
	} {
		controller := &running{name: "idle"}
		if err := add(&scopedManager{controller: controller}); err != nil {
			t.Fatal(err)
		}
		if got, want := controller.runs(), name != "nothing"; got != want {
			t.Errorf("a controller that adds %s runs: %t, want %t", name, got, want)
		}
	}
}

// silentPlugin declares nothing, and declaring does.
type (
	silentPlugin struct{ cloudprovider.Interface }
	declaring    struct{ silentPlugin }
)

func (silentPlugin) ProviderName() string             { return "silent" }
func (declaring) Capabilities() provider.Capabilities { return provider.Capabilities{} }

func TestADryRunWarnsOfPluginsThatMayActByThemselves(t *testing.T) {
	if got := warnOfInitialize(context.Background(), silentPlugin{}); !strings.Contains(got, "read-only credentials") {
		t.Errorf("warning %q", got)
	}
	if got := warnOfInitialize(context.Background(), declaring{}); got != "" {
		t.Errorf("warning %q of a plugin that declares what it offers", got)
	}
}
