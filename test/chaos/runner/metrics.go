package runner

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/test/chaos/report"
)

// sampleTimeout bounds the reading of one manager's metrics.
const sampleTimeout = 10 * time.Second

// sampleOn samples what the leading manager uses, until ctx ends.
func (r *run) sampleOn(ctx context.Context) {
	client, err := metricsClient(r.env.config)
	if err != nil {
		r.keep(err)
		return
	}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(r.options.SampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		sample, err := r.sample(ctx, client)
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

// metricsClient is a client for the secure ports of managers, with the rights of an administrator.
func metricsClient(config *rest.Config) (*http.Client, error) {
	certificate, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return nil, err
	}
	// The manager has signed its certificate itself, and is a child of this process.
	return &http.Client{Timeout: sampleTimeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	}}, nil
}

// sample reads the metrics of the leader.
func (r *run) sample(ctx context.Context, client *http.Client) (report.Sample, error) {
	name, port := r.leader().process()
	url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return report.Sample{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return report.Sample{}, fmt.Errorf("read the metrics of the leader: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return report.Sample{}, fmt.Errorf("read the metrics of the leader: it answers %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
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
