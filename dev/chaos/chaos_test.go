// Package chaos_test runs short fault schedules over the whole system: see dev/docs/chaos.md.
package chaos_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/ccm"
	_ "github.com/mooring-ccm/mooring/dev/chaos/plugin"
	"github.com/mooring-ccm/mooring/dev/chaos/runner"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
)

// asManager makes the test binary a cloud controller manager, with the race detector if the tests have it.
const asManager = "MOORING_CHAOS_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		ccm.Main()
		return
	}
	os.Exit(m.Run())
}

// options are those of a short run. Its deadlines are not what is tested: only a system that never converges exceeds them.
func options(t *testing.T) runner.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "mooring-chaos-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs are kept in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return runner.Options{
		ControlPlane: localclustertest.Build(t, localcluster.ControlPlane), Binary: self, Dir: dir,
		Env: []string{asManager + "=1", "GORACE=halt_on_error=1"}, Lease: 8 * time.Second, Bound: 5 * time.Minute, Patience: 8 * time.Minute,
	}
}

// play runs a schedule and fails if a rule did not hold.
func play(t *testing.T, s schedule.Schedule, o runner.Options) {
	t.Helper()
	found, err := runner.Run(t.Context(), s, o)
	if err != nil {
		t.Error(err)
	}
	var text strings.Builder
	found.Write(&text)
	if len(found.Violations) > 0 {
		t.Errorf("rules did not hold. The schedule:\n%s\n%s", s, &text)
	}
	t.Logf("%s", &text)
}

// A schedule from a seed, and all rules hold. Other seeds, and longer: make chaos SEED=7 DURATION=10m.
func TestSeed(t *testing.T) {
	t.Parallel()
	play(t, schedule.Generate(7, 20*time.Second, schedule.Short()), options(t))
}

// Schedules that were kept, because they once showed something or because a seed rarely has them.
func TestKept(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/schedules/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no schedules: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			s, err := schedule.Parse(file)
			if err != nil {
				t.Fatal(err)
			}
			o := options(t)
			o.Watch = true
			play(t, s, o)
		})
	}
}
