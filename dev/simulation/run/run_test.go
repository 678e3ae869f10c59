package run_test

import (
	"strings"
	"testing"

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

// seeds returns how many draws a test runs.
func seeds(many uint64) uint64 {
	if testing.Short() {
		return many / 3
	}
	return many
}

// TestDraws runs draws and checks that both managers work in them. What Mooring breaks is printed and does not fail the test.
func TestDraws(t *testing.T) {
	for seed := uint64(1); seed <= seeds(12); seed++ {
		outcome := must.Value(run.Draw(t, draw.New(seed)))(t)
		if len(outcome.Reference.Calls) == 0 || len(outcome.Mooring.Calls) == 0 {
			t.Errorf("seed %d: a manager has called nothing", seed)
		}
		for _, kind := range outcome.Kinds() {
			state := "known"
			if run.Known(kind) == "" {
				state = "new"
			}
			t.Logf("seed %d: %s kind: %s", seed, state, kind)
		}
	}
}

// TestShrink shrinks a draw in which a proxy answers one write with 404.
func TestShrink(t *testing.T) {
	const seed, rule = 53, "9"
	text := must.Value(run.Shrink(t, draw.New(seed), rule))(t)
	if !strings.Contains(text, "rule 9") || strings.Count(text, "\nnode ") > 2 {
		t.Errorf("not shrunk:\n%s", text)
	}
}

func TestKnown(t *testing.T) {
	if about := run.Known("9 x plain x none"); about == "" {
		t.Error("a listed kind is not known")
	}
	if about := run.Known("99 x plain x none"); about != "" {
		t.Errorf("a kind that is not listed is known: %s", about)
	}
}
