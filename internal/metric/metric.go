// Package metric declares metrics by name and help.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Factory makes metrics and registers them. A metric that cannot be registered is a mistake of the program, and panics.
type Factory struct{ factory promauto.Factory }

// With returns a factory for a registerer. Nil: its metrics are not exported.
func With(registerer prometheus.Registerer) Factory { return Factory{promauto.With(registerer)} }

// NewCounter makes a counter.
func (f Factory) NewCounter(name, help string) prometheus.Counter {
	return f.factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// NewCounterVec makes counters by labels.
func (f Factory) NewCounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return f.factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// NewGauge makes a gauge.
func (f Factory) NewGauge(name, help string) prometheus.Gauge {
	return f.factory.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// NewGaugeFunc makes a gauge that shows what a function returns.
func (f Factory) NewGaugeFunc(name, help string, value func() float64) prometheus.GaugeFunc {
	return f.factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// NewGaugeVec makes gauges by labels.
func (f Factory) NewGaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.factory.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// NewHistogram makes a histogram.
func (f Factory) NewHistogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.factory.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// NewHistogramVec makes histograms by labels.
func (f Factory) NewHistogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.factory.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}
