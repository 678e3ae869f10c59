package runner_test

import (
	"context"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/runner"
	"github.com/mooring-ccm/mooring/dev/bench/scenario"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// TestGrowingClustersAreMeasured takes a few nodes and Services through the scenarios of growth. It is about the benchmark itself.
func TestGrowingClustersAreMeasured(t *testing.T) {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), smokeLimit)
	defer cancel()
	size := runner.QuickGrowth()
	size.Growth, size.QuotaGrowth = size.Growth[1:], size.QuotaGrowth[:1]
	options := runner.Options{
		Stages: scenario.Growth(size), Size: size, Variants: runner.GrownVariants(), Programs: t.TempDir(),
		Binaries: localclustertest.Build(t), Display: progress.New(os.Stderr), Save: func(figures.Report) error { return nil },
	}
	if err := runner.Build(ctx, "..", options.Programs, options.Variants, options.Display); err != nil {
		t.Fatal(err)
	}
	measured, err := runner.Run(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{figures.GrowthJoin, figures.GrowthServices, figures.GrowthRest, figures.GrowthQuota} {
		results := measured.Grown(name)
		if len(results) != 1 {
			t.Errorf("%d results of %s, want one", len(results), name)
			continue
		}
		requireInspected(t, results[0])
	}
	if t.Failed() {
		return
	}
	joined, served, quota := measured.Grown(figures.GrowthJoin)[0], measured.Grown(figures.GrowthServices)[0], measured.Grown(figures.GrowthQuota)[0]
	if got := joined.Writes["patch nodes/status"] + joined.Writes["update nodes/status"]; got < joined.Nodes {
		t.Errorf("%d writes of the status of %d nodes: %v", got, joined.Nodes, joined.Writes)
	}
	if got := served.Calls["CreateLoadBalancer"].Received; got != int64(served.Services) || served.Services != served.Nodes/figures.NodesAService {
		t.Errorf("%d load balancers for %d Services and %d nodes", got, served.Services, served.Nodes)
	}
	if got := quota.Calls["GetInstanceByName"].Received - quota.Refused(); got != int64(quota.Nodes) {
		t.Errorf("%d answers about %d nodes", got, quota.Nodes)
	}
	requireNothingLeft(t)
}

// requireInspected fails if a figure is missing that every result of growing clusters has.
func requireInspected(t *testing.T, result figures.Result) {
	t.Helper()
	const mib = 1 << 20
	if !result.Complete || result.Seconds <= 0 || result.Nodes == 0 {
		t.Errorf("%s: given up, or a figure is missing: %+v", result.Scenario, result)
	}
	if result.ResidentBytes < mib || result.PeakBytes < result.ResidentBytes || result.LiveBytes < mib || result.LiveBytes > result.PeakBytes {
		t.Errorf("%s: %d bytes resident, %d at most, %d live", result.Scenario, result.ResidentBytes, result.PeakBytes, result.LiveBytes)
	}
	// At rest the lease is renewed.
	if result.ReceivedBytes <= 0 || result.SentBytes <= 0 {
		t.Errorf("%s: received %d bytes, sent %d", result.Scenario, result.ReceivedBytes, result.SentBytes)
	}
}
