package metal_test

import (
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/bench/metal"
	"github.com/mooring-ccm/mooring/dev/bench/metal/rack"
	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
)

// programsVariable holds, for the inside of the sandbox, the programs that were built outside.
const programsVariable = "MOORING_TEST_PROGRAMS"

// TestBothGoThroughTheScenarios takes a few Services through everything. It is about the benchmark itself: that both programs start, are measured,
// and end. It says nothing about how long anything takes.
func TestBothGoThroughTheScenarios(t *testing.T) {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	if !sandbox.Inside() {
		sandbox.Require(t, router.Programs(router.FRR)...)
		localclustertest.Build(t)
		programs := must.Value(rack.Build(t.Context(), "programs", t.TempDir(), os.Stderr))(t)
		sandbox.Run(t, sandbox.Options{Env: []string{programsVariable + "=" + programs.Encode()}, Dirs: router.Dirs(), Timeout: 5 * time.Minute})
		return
	}
	dir := sandbox.Furnish(t)
	programs := must.Value(rack.Decode(os.Getenv(programsVariable)))(t)
	opened := must.Value(rack.Open(t.Context(), rack.Options{
		Programs: programs, Binaries: localclustertest.Build(t), Kind: router.FRR, Dir: dir,
	}))(t)
	report := &metal.Report{Services: metal.QuickSize().Services}
	saved := 0
	runner := metal.Runner{
		Rack: opened, Size: metal.QuickSize(), Report: report, Save: func() error { saved++; return nil }, Progress: func(what string) { t.Log(what) },
	}
	must.NoError(t, runner.Run(t.Context()))
	must.NoError(t, opened.Close(t.Context()))
	if report.Repetitions() != 1 || saved != len(rack.Systems()) {
		t.Errorf("%d repetitions, saved %d times", report.Repetitions(), saved)
	}
	t.Log(report.Figures)
}
