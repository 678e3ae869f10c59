package harness

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/must"
)

// Metric returns the sum of a metric of the manager over all labels that match; of a histogram, the number of observations.
func (m *Manager) Metric(t testing.TB, name string, keysAndValues ...string) float64 {
	t.Helper()
	return Sum(t, m.Registry, name, keysAndValues...)
}

// Sum returns the sum of a metric over all labels that match; of a histogram, the number of observations.
func Sum(t testing.TB, gatherer prometheus.Gatherer, name string, keysAndValues ...string) float64 {
	t.Helper()
	families, err := gatherer.Gather()
	must.NoError(t, err)
	total := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.Metric {
			has := map[string]string{}
			for _, label := range metric.Label {
				has[label.GetName()] = label.GetValue()
			}
			if matchesAll(has, keysAndValues) {
				total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return total
}

func matchesAll(has map[string]string, keysAndValues []string) bool {
	for pair := range slices.Chunk(keysAndValues, 2) {
		if has[pair[0]] != pair[1] {
			return false
		}
	}
	return true
}

// Requests returns what the manager asked the API server for and has the answer of, in the order of the answers.
func (m *Manager) Requests(t testing.TB) []auditv1.Event {
	t.Helper()
	requests, err := m.cluster.Requests(t.Context(), m.identity.User(), m.since)
	must.NoError(t, err)
	return requests
}

// Write is one write to an object.
type Write struct {
	// Name is the object's, and What is such as "patch status 200".
	Name, What string
}

// Writes returns what the manager wrote to the objects of a resource, in the order of the answers.
func (m *Manager) Writes(t testing.TB, resource string) []Write {
	t.Helper()
	var writes []Write
	for _, event := range m.Requests(t) {
		if !localcluster.IsWrite(event) || event.ObjectRef == nil || event.ObjectRef.Resource != resource {
			continue
		}
		writes = append(writes, Write{event.ObjectRef.Name, Outcome(event)})
	}
	return writes
}

// Outcome says of a request about an object what was asked and how that ended: "patch status 200".
func Outcome(event auditv1.Event) string {
	asked := strings.TrimSuffix(event.Verb+" "+event.ObjectRef.Subresource, " ")
	return fmt.Sprintf("%s %d", asked, event.ResponseStatus.Code)
}
