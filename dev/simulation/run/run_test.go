package run_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
	"github.com/mooring-ccm/mooring/dev/simulation/run"
)

func TestMain(m *testing.M) {
	managers.Prepare(logr.Discard())
	m.Run()
}

// TestDraws runs draws and checks that both managers work in them. What Mooring breaks is printed.
func TestDraws(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		began := time.Now()
		verdict := must.Value(run.Draw(t, draw.New(seed+1)))(t)
		for _, record := range []int{len(verdict.Reference.Calls), len(verdict.Mooring.Calls)} {
			if record == 0 {
				t.Errorf("seed %d: a manager has called nothing", seed+1)
			}
		}
		t.Logf("seed %d: %s, %s: %q", seed+1, verdict.Draw.Plugin.Name(), time.Since(began).Round(time.Millisecond), verdict.Kinds())
	}
}

// TestRepeats runs draws twice: the verdict is the same.
func TestRepeats(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		first := must.Value(run.Draw(t, draw.New(seed)))(t)
		second := must.Value(run.Draw(t, draw.New(seed)))(t)
		if !slices.Equal(first.Kinds(), second.Kinds()) {
			t.Errorf("seed %d: first %q, then %q", seed, first.Kinds(), second.Kinds())
		}
	}
}
