package runner

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/mooring-ccm/mooring/dev/chaos/report"
	"github.com/mooring-ccm/mooring/dev/harness"
)

// sampleTimeout bounds the reading of one manager's metrics.
const sampleTimeout = 10 * time.Second

// sampleOn samples what the leading manager uses, until ctx ends.
func (r *run) sampleOn(ctx context.Context) {
	ticker := time.NewTicker(r.options.SampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		sample, err := r.sample(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.keep(err)
		default:
			r.mu.Lock()
			r.samples = append(r.samples, sample)
			r.mu.Unlock()
		}
	}
}

// sample reads the metrics of the leader.
func (r *run) sample(ctx context.Context) (report.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	name, port := r.leader().process()
	metrics, err := harness.Endpoint{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), As: r.env.config}.OK(ctx, "/metrics", "")
	if err != nil {
		return report.Sample{}, fmt.Errorf("read the metrics of the leader: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(metrics))
	if err != nil {
		return report.Sample{}, fmt.Errorf("read the metrics of the leader: %w", err)
	}
	return report.Sample{
		At: r.now().Seconds(), Replica: name, Memory: gauge(families, "process_resident_memory_bytes"), Heap: gauge(families, "go_memstats_heap_alloc_bytes"),
		Goroutines: gauge(families, "go_goroutines"), Files: gauge(families, "process_open_fds"),
	}, nil
}

func gauge(families map[string]*dto.MetricFamily, name string) float64 {
	if family := families[name]; family != nil && len(family.Metric) > 0 {
		return family.Metric[0].GetGauge().GetValue()
	}
	return 0
}
