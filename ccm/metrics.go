package ccm

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // requests to the API server and leader election, as the reference counts them
	"k8s.io/component-base/metrics/prometheus/controllers"
	_ "k8s.io/component-base/metrics/prometheus/version" // kubernetes_build_info
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// metricsHandler serves the metrics of the Kubernetes libraries, of controller-runtime and of ours as one.
func metricsHandler(ours prometheus.Gatherer) http.Handler {
	controllers.Register()
	return promhttp.HandlerFor(gatherers{legacyregistry.DefaultGatherer, runtimemetrics.Registry, ours},
		promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// gatherers joins registries of which each has been written without knowing the others. The Go and process collectors are in
// several of them, and workqueues are counted under one name with different help texts and labels: prometheus.Gatherers
// drops what differs in the help text, this keeps every series once.
type gatherers []prometheus.Gatherer

// Gather returns all families by name. Of two series with equal labels the first wins.
func (g gatherers) Gather() ([]*dto.MetricFamily, error) {
	families := map[string]*dto.MetricFamily{}
	seen := map[string]bool{}
	var errs []error
	for _, gatherer := range g {
		gathered, err := gatherer.Gather()
		errs = append(errs, err)
		for _, family := range gathered {
			target, found := families[family.GetName()]
			switch {
			case !found:
				target = &dto.MetricFamily{Name: family.Name, Help: family.Help, Type: family.Type, Unit: family.Unit}
				families[family.GetName()] = target
			case target.GetType() != family.GetType():
				errs = append(errs, fmt.Errorf("metric %s is a %s here and a %s there", family.GetName(), target.GetType(), family.GetType()))
				continue
			}
			for _, metric := range family.GetMetric() {
				if key := seriesKey(family.GetName(), metric); !seen[key] {
					seen[key] = true
					target.Metric = append(target.Metric, metric)
				}
			}
		}
	}
	result := make([]*dto.MetricFamily, 0, len(families))
	for _, family := range families {
		result = append(result, family)
	}
	slices.SortFunc(result, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return result, errors.Join(errs...)
}

// seriesKey identifies a series by its name and labels, in whatever order the labels are.
func seriesKey(name string, metric *dto.Metric) string {
	labels := make([]string, 0, len(metric.GetLabel()))
	for _, label := range metric.GetLabel() {
		labels = append(labels, fmt.Sprintf("%q=%q", label.GetName(), label.GetValue()))
	}
	slices.Sort(labels)
	return name + "{" + strings.Join(labels, ",") + "}"
}
