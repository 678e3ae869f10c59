package announce

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionCount is what Services are counted by. Reasons are those of package model, so there are few.
type conditionCount struct{ status, reason string }

// conditionCounts count Services by the condition that they shall have.
type conditionCounts map[conditionCount]int

func (c conditionCounts) add(want *metav1.Condition) {
	if want != nil {
		c[conditionCount{string(want.Status), want.Reason}]++
	}
}

// show puts the counts in the place of those before.
func (c conditionCounts) show(metric *prometheus.GaugeVec) {
	metric.Reset()
	for of, count := range c {
		metric.WithLabelValues(of.status, of.reason).Set(float64(count))
	}
}

func newConditionMetric(registerer prometheus.Registerer) *prometheus.GaugeVec {
	return promauto.With(registerer).NewGaugeVec(prometheus.GaugeOpts{
		Name: "mooring_metal_service_conditions",
		Help: "Services by status and reason of the condition metal.mooring.dev/Announced, with the sessions of this replica. Of the leader only.",
	}, []string{"status", "reason"})
}
