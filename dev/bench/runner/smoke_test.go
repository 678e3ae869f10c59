package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/pprof/profile"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/runner"
	"github.com/mooring-ccm/mooring/dev/bench/scenario"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// smokeLimit bounds the whole test, the builds of both managers included.
const smokeLimit = 15 * time.Minute

// TestBothManagersGoThroughTheScenarios takes a few nodes and Services through the variants. It is about the benchmark itself:
// that everything starts, ends, is counted and cleaned up.
func TestBothManagersGoThroughTheScenarios(t *testing.T) {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), smokeLimit)
	defer cancel()
	display, programs := progress.New(os.Stderr), t.TempDir()
	if err := runner.Build(ctx, "..", programs, runner.Variants(), display); err != nil {
		t.Fatal(err)
	}
	options := runner.Options{
		Stages: scenario.Stages(), Size: runner.QuickSize(), Programs: programs, Binaries: localclustertest.Build(t), Display: display,
		Profiles: t.TempDir(), ProfilePeriod: time.Second,
	}

	measured := run(ctx, t, options, []string{"join-1000", figures.JoinRouted, "notready-1000", figures.Throttled300}, figures.ReferenceTuned, figures.MooringBulk)
	if want := []string{"join-1000", figures.JoinRouted, "services-200", "notready-1000", figures.Join300, figures.Throttled300}; !slices.Equal(measured.Scenarios(), want) {
		t.Errorf("scenarios %q, want %q", measured.Scenarios(), want)
	}
	requireCounts(t, measured, options.Size)
	requireThrottled(t, measured, options.Size)
	requireRounds(t, measured, options.Size)

	silent := run(ctx, t, options, []string{figures.NotReadyOne, figures.NotReadyAtOnce}, figures.MooringPlain)
	for _, one := range silent.Results {
		if deleted := one.Writes["delete nodes"]; deleted != options.Size.Nodes/2 {
			t.Errorf("%s: %d nodes are deleted, want %d", one.Scenario, deleted, options.Size.Nodes/2)
		}
	}
	// A standby takes 20 s, but for one of Mooring whose leader is asked to stop, or whose container is reported as terminated.
	stopped := run(ctx, t, options, []string{"leader-sigkill"}, figures.MooringPlain)
	for _, one := range stopped.Results {
		if one.LeaseSeconds <= 0 || one.LeaseSeconds > one.Seconds || one.Seconds > 10 {
			t.Errorf("%s: the lease after %f s, the node after %f s", one.Scenario, one.LeaseSeconds, one.Seconds)
		}
	}
	requireProfiles(t, options.Profiles, "join-1000-mooring-bulk")
	requireNothingLeft(t)
}

// run takes variants through scenarios, and fails unless every figure is there.
func run(ctx context.Context, t *testing.T, options runner.Options, scenarios []string, variants ...string) figures.Report {
	t.Helper()
	saved := 0
	options.Scenarios, options.Save = scenarios, func(figures.Report) error { saved++; return nil }
	for _, variant := range runner.Variants() {
		if slices.Contains(variants, variant.Name) {
			options.Variants = append(options.Variants, variant)
		}
	}
	measured, err := runner.Run(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range measured.Results {
		requirePlausible(t, result)
	}
	if len(measured.Results) == 0 || saved < len(variants) {
		t.Errorf("%d results of %d variants, saved %d times", len(measured.Results), len(variants), saved)
	}
	return measured
}

// requirePlausible fails if a figure is missing that every result has.
func requirePlausible(t *testing.T, result figures.Result) {
	t.Helper()
	if !result.Complete {
		t.Errorf("%s, %s: given up after %.0f s at %d of %d", result.Scenario, result.Variant, result.Seconds, result.Done, result.Of)
	}
	if result.Seconds <= 0 || result.Received() == 0 || result.Written() == 0 || result.PeakBytes < 1<<20 {
		t.Errorf("%s, %s: a figure is missing: %+v", result.Scenario, result.Variant, result)
	}
}

// requireCounts fails unless what is counted is what must have happened.
func requireCounts(t *testing.T, measured figures.Report, size figures.Size) {
	t.Helper()
	for _, variant := range measured.VariantNames() {
		lost, _ := measured.Find("notready-1000", variant)
		if deleted := lost.Writes["delete nodes"]; deleted != size.Nodes/2 {
			t.Errorf("%s has deleted %d nodes, want %d", variant, deleted, size.Nodes/2)
		}
		served, _ := measured.Find("services-200", variant)
		if created := served.Calls["CreateLoadBalancer"].Received; created != int64(size.Services) {
			t.Errorf("%s has created %d load balancers, want %d", variant, created, size.Services)
		}
	}
	joined, _ := measured.Find("join-1000", figures.ReferenceTuned)
	if asked := joined.Calls["GetInstanceByName"].Received; asked < int64(size.Nodes) {
		t.Errorf("the reference has asked for %d nodes, want at least %d", asked, size.Nodes)
	}
}

// requireThrottled fails unless nodes have joined as often as they should, and only load balancers were throttled.
func requireThrottled(t *testing.T, measured figures.Report, size figures.Size) {
	t.Helper()
	for _, result := range measured.Results {
		if result.Scenario != figures.Join300 && result.Scenario != figures.Throttled300 {
			continue
		}
		if len(result.Rounds) != size.Rounds || result.Seconds != figures.Median(result.Rounds) {
			t.Errorf("%s, %s: rounds of %v s, median %f s; want %d rounds", result.Scenario, result.Variant, result.Rounds, result.Seconds,
				size.Rounds)
		}
		creations := result.Calls["CreateLoadBalancer"]
		if (creations.Received > 0) != (result.Scenario == figures.Throttled300) {
			t.Errorf("%s, %s: %d load balancers were asked for", result.Scenario, result.Variant, creations.Received)
		}
		if creations.Refused != creations.Received || result.Refused() != creations.Refused {
			t.Errorf("%s, %s: want refusals for each creation of a load balancer and nothing else: %+v", result.Scenario, result.Variant,
				result.Calls)
		}
	}
}

// requireRounds fails unless nodes joined in several rounds, and all figures except the times are those of the first round.
func requireRounds(t *testing.T, measured figures.Report, size figures.Size) {
	t.Helper()
	for _, variant := range measured.VariantNames() {
		routed, _ := measured.Find(figures.JoinRouted, variant)
		if len(routed.Rounds) != size.Rounds || len(routed.InitializedRounds) != size.Rounds {
			t.Errorf("%s: rounds of %v s, initialized after %v s, want %d rounds", variant, routed.Rounds, routed.InitializedRounds, size.Rounds)
			continue
		}
		for round, initialized := range routed.InitializedRounds {
			if initialized <= 0 || initialized > routed.Rounds[round] {
				t.Errorf("%s: initialized after %f s, routed after %f s", variant, initialized, routed.Rounds[round])
			}
		}
		if made := routed.Calls["CreateRoute"].Received; made != int64(size.Nodes) {
			t.Errorf("%s has made %d routes, want %d", variant, made, size.Nodes)
		}
	}
}

// requireProfiles fails unless both profiles of a scenario and variant are there and can be read.
func requireProfiles(t *testing.T, dir, name string) {
	t.Helper()
	for _, kind := range []string{"cpu", "allocs"} {
		content, err := os.ReadFile(filepath.Join(dir, name+"-"+kind+".pprof"))
		if err != nil {
			t.Error(err)
			continue
		}
		if taken, err := profile.ParseData(content); err != nil || len(taken.SampleType) == 0 {
			t.Errorf("the %s profile cannot be read: %v", kind, err)
		}
	}
}

// requireNothingLeft fails if this process has children or the environments have left files.
func requireNothingLeft(t *testing.T) {
	t.Helper()
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range children {
		if content, err := os.ReadFile(list); err == nil && len(content) > 0 {
			t.Errorf("processes are left: %s", content)
		}
	}
}
