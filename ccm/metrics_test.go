package ccm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestGatherersKeepEverySeries, also those of a family that two registries describe differently.
func TestGatherersKeepEverySeries(t *testing.T) {
	first, second := prometheus.NewRegistry(), prometheus.NewRegistry()
	gauge := func(registry *prometheus.Registry, name, help string, labels prometheus.Labels, value float64) {
		one := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
		one.Set(value)
		registry.MustRegister(one)
	}
	gauge(first, "goroutines", "Goroutines.", nil, 1)
	gauge(second, "goroutines", "Goroutines, too.", nil, 2)
	gauge(first, "depth", "[BETA] Depth.", prometheus.Labels{"name": "a"}, 3)
	gauge(second, "depth", "Depth.", prometheus.Labels{"name": "a", "controller": "a"}, 4)
	gauge(second, "ours", "Ours.", nil, 5)

	families, err := gatherers{first, second}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			got[seriesKey(family.GetName(), metric)] = metric.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		`goroutines{}`:                       1,
		`depth{"name"="a"}`:                  3,
		`depth{"controller"="a","name"="a"}`: 4,
		`ours{}`:                             5,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGatherersRefuseOneNameForTwoKinds(t *testing.T) {
	first, second := prometheus.NewRegistry(), prometheus.NewRegistry()
	first.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "depth"}))
	second.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "depth"}))
	if _, err := (gatherers{first, second}).Gather(); err == nil {
		t.Error("a gauge and a counter of one name are joined")
	}
}
