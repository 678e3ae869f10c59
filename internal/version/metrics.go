package version

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Register registers the version of this program as a metric, by the convention of Prometheus for such metrics. The libraries'
// own kubernetes_build_info has a version only if the linker was given one.
func Register(registerer prometheus.Registerer) {
	info := Get()
	promauto.With(registerer).NewGaugeVec(prometheus.GaugeOpts{
		Name: "mooring_build_info",
		Help: "Always 1. Its labels name the version of Mooring, its commit, the version of Kubernetes whose libraries are in it, the release of Go, and a vendor's program.",
	}, []string{"version", "revision", "kubernetes", "goversion", "program"}).
		WithLabelValues(info.Version, info.Commit, info.Kubernetes, info.Go, info.Program).Set(1)
}
