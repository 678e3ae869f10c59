package health

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

// serverVariable marks the process that BenchmarkProber probes.
const serverVariable = "MOORING_TEST_PROBED"

// TestProbedProcess is 2,000 nodes, for BenchmarkProber.
func TestProbedProcess(t *testing.T) {
	if os.Getenv(serverVariable) == "" {
		return
	}
	listener, err := net.Listen("tcp", os.Getenv(serverVariable))
	if err != nil {
		t.Fatal(err)
	}
	_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"nodeEligible": true}`))
	}))
}

// BenchmarkProber measures what it costs to probe 2,000 nodes twice a second, in CPU seconds of this process in a second. Each node
// is an address of loopback.
func BenchmarkProber(b *testing.B) {
	const nodes = 2000
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	server := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestProbedProcess$")
	server.Env = append(os.Environ(), serverVariable+"=:"+strconv.Itoa(port))
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	settings := settings()
	settings.KubeProxyPort = int32(port)
	prober := New(settings, prometheus.NewRegistry())
	targets := map[model.Probe]netip.Addr{}
	for i := range nodes {
		targets[nodeOf(i)] = netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)})
	}
	prober.SetTargets(targets)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { defer close(done); prober.Run(ctx) }()
	poll.Until(b, "all nodes are healthy", func(context.Context) error {
		if counts := prober.counts(); counts[model.Healthy] < nodes {
			return fmt.Errorf("the health states are %v", counts)
		}
		return nil
	})
	before, began := cpu(b), time.Now()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	b.ReportMetric((cpu(b)-before).Seconds()/time.Since(began).Seconds(), "cpu-s/s")
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			b.ReportMetric(float64(kb)/1024, "MB-RSS")
		}
	}
	b.ReportMetric(float64(prober.counts()[model.Healthy]), "healthy")
	cancel()
	<-done
}

func cpu(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
