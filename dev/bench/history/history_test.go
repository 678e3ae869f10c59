package history_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/history"
	"github.com/mooring-ccm/mooring/dev/must"
)

var full = figures.Size{Nodes: 1000, ManyNodes: 5000, QuotaNodes: 600, Services: 200, QuotaRate: 20, Rounds: 3}

// measured is an entry of a full run.
func measured(version string) figures.Entry {
	report := figures.Report{Began: time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC), Setup: figures.Setup{Size: full}}
	for _, scenario := range figures.MainScenarios {
		for _, variant := range []string{figures.ReferenceTuned, figures.MooringPlain, figures.MooringBulk} {
			report.Results = append(report.Results, figures.Result{Scenario: scenario, Variant: variant, Seconds: 1, Complete: true})
		}
	}
	entry := figures.NewEntry(report)
	entry.Version = version
	return entry
}

func versions(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := history.Read(folder)
	must.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Version)
	}
	return names
}

func TestReadReturnsWhatWasWrittenInOrder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "history")
	if names := versions(t, folder); len(names) > 0 {
		t.Errorf("a folder that is not there has %v", names)
	}
	want := []figures.Entry{measured("v0.9.0"), measured("v0.10.0"), measured(figures.Next)}
	for _, i := range []int{2, 1, 0} {
		must.NoError(t, history.Write(folder, want[i]))
	}
	got, err := history.Read(folder)
	must.NoError(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestReadNamesEveryFileThatCannotBeUsed(t *testing.T) {
	folder := t.TempDir()
	must.NoError(t, history.Write(folder, measured("v0.1.0")))
	must.NoError(t, os.WriteFile(filepath.Join(folder, "v0.2.0.json"), []byte(`{"format": 2}`), 0o600))
	must.NoError(t, os.WriteFile(filepath.Join(folder, "v0.3.0.json"), []byte(`{"format": 1, "version": "next"}`), 0o600))
	entries, err := history.Read(folder)
	if len(entries) > 0 {
		t.Errorf("there are %d entries beside an error", len(entries))
	}
	must.ErrorContains(t, err, "v0.2.0.json: format is 2, must be 1", `v0.3.0.json: version is "next", must be "v0.3.0"`, "--release=v0.3.0")
}

func TestReleaseNamesTheNextFigures(t *testing.T) {
	folder := t.TempDir()
	must.ErrorContains(t, history.Release(folder, "v0.1.0", full), "next.json", "make bench")
	must.NoError(t, history.Write(folder, measured(figures.Next)))
	must.ErrorContains(t, history.Release(folder, "0.1", full), `version is "0.1"`)
	must.NoError(t, history.Release(folder, "v0.1.0", full))
	if diff := cmp.Diff([]string{"v0.1.0"}, versions(t, folder)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	must.NoError(t, history.Check(folder, "v0.1.0", full))
}

func TestReleaseTouchesNothingThatIsReleased(t *testing.T) {
	folder := t.TempDir()
	must.NoError(t, history.Write(folder, measured("v0.1.0")))
	next := measured(figures.Next)
	next.Kubernetes = "v1.40.0"
	must.NoError(t, history.Write(folder, next))
	before, err := os.ReadFile(filepath.Join(folder, "v0.1.0.json"))
	must.NoError(t, err)
	must.ErrorContains(t, history.Release(folder, "v0.1.0", full), "v0.1.0.json is there already")
	after, err := os.ReadFile(filepath.Join(folder, "v0.1.0.json"))
	must.NoError(t, err)
	if string(before) != string(after) {
		t.Errorf("the figures of the release are now\n%s", after)
	}
	if diff := cmp.Diff([]string{"v0.1.0", "next"}, versions(t, folder)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestReleaseRefusesFiguresOfSmallSizes(t *testing.T) {
	folder := t.TempDir()
	next := measured(figures.Next)
	next.Size.Nodes = 20
	must.NoError(t, history.Write(folder, next))
	must.ErrorContains(t, history.Release(folder, "v0.1.0", full), "size.nodes is 20, must be 1000", "make bench")
	if diff := cmp.Diff([]string{"next"}, versions(t, folder)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestCheckSaysWhatIsWrongAndWhatToRun(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(folder string) error
		want    []string
	}{
		"nothing was measured": {
			func(string) error { return nil },
			[]string{"v0.2.0.json: is not there", "run `make bench` and `go -C dev/bench run ./cmd/report --release=v0.2.0`"},
		},
		"figures of another release": {
			func(folder string) error { return history.Write(folder, measured("v0.1.0")) },
			[]string{"v0.2.0.json: is not there", "run `make bench`"},
		},
		"not named yet": {
			func(folder string) error { return history.Write(folder, measured(figures.Next)) },
			[]string{"v0.2.0.json: is not there", "; run `go -C dev/bench run ./cmd/report --release=v0.2.0`"},
		},
		"other sizes": {
			func(folder string) error {
				entry := measured("v0.2.0")
				entry.Size.Nodes, entry.Size.ManyNodes = 20, 40
				return history.Write(folder, entry)
			},
			[]string{"size.nodes is 20, must be 1000", "size.manyNodes is 40, must be 5000", "`make bench`"},
		},
		"a part only": {
			func(folder string) error {
				entry := measured("v0.2.0")
				entry.Results = entry.Results[1:]
				return history.Write(folder, entry)
			},
			[]string{"results lack join-1000 of reference-tuned", "`make bench`"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			must.NoError(t, test.prepare(folder))
			must.ErrorContains(t, history.Check(folder, "v0.2.0", full), test.want...)
		})
	}
}

func TestWriteNextLeavesNoFiguresThatAreReleased(t *testing.T) {
	folder := t.TempDir()
	must.NoError(t, history.Write(folder, measured(figures.Next)))
	must.NoError(t, history.WriteNext(folder, []figures.Entry{measured("v0.1.0")}))
	if names := versions(t, folder); len(names) > 0 {
		t.Errorf("there are %v, want neither the next nor what is released, which is there already", names)
	}
}
