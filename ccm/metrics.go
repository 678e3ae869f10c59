package ccm

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
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

// asReference begins the names of the metrics that the reference registers in the registry of the Kubernetes libraries.
var asReference = regexp.MustCompile(`^(node|route|service)_controller_`)

// published shows in the registry of the Kubernetes libraries the metrics of ours that the reference registers there: a plugin may serve that
// registry on a port of its own. Of two managers in one process those of the younger are shown.
type published struct {
	once sync.Once
	ours atomic.Pointer[prometheus.Registry]
}

// libraries belongs to the process, because the registry does.
var libraries published

// show begins to show a registry.
func (p *published) show(ours *prometheus.Registry) error {
	p.ours.Store(ours)
	var err error
	p.once.Do(func() { err = legacyregistry.Registerer().Register(p) })
	return err
}

// Describe implements prometheus.Collector: which metrics there are depends on the controllers.
func (p *published) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p *published) Collect(collected chan<- prometheus.Metric) {
	families, err := p.ours.Load().Gather()
	if err != nil {
		return // /metrics shows it
	}
	for _, family := range families {
		if !asReference.MatchString(family.GetName()) {
			continue
		}
		for _, metric := range family.GetMetric() {
			collected <- gathered{family, metric}
		}
	}
}

// gathered is a metric of another registry.
type gathered struct {
	family *dto.MetricFamily
	metric *dto.Metric
}

// Desc implements prometheus.Metric.
func (g gathered) Desc() *prometheus.Desc {
	var labels []string
	for _, label := range g.metric.GetLabel() {
		labels = append(labels, label.GetName())
	}
	return prometheus.NewDesc(g.family.GetName(), g.family.GetHelp(), labels, nil)
}

// Write implements prometheus.Metric.
func (g gathered) Write(to *dto.Metric) error {
	proto.Merge(to, g.metric)
	return nil
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
