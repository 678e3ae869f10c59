package tables_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/reference/tables"
	"github.com/mooring-ccm/mooring/dev/reference/upstream"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

func TestMain(m *testing.M) {
	managers.Prepare(logr.Discard())
	m.Run()
}

// packages are those of the reference whose tests are played.
var packages = []string{"node", "nodelifecycle", "route", "service"}

// raceDetector says that this was compiled with the race detector, which finds a race in the reference's service controller.
var raceDetector bool

// page is where the results are.
const page = "../../docs/reference-tables.md"

var update = flag.Bool("update", false, "write the page of results")

// cases returns the cases of a package.
func cases(t *testing.T, name string) []tables.Case {
	t.Helper()
	dir, _, err := upstream.Module(t.Context(), "k8s.io/cloud-provider")
	must.NoError(t, err)
	return must.Value(tables.Cases(must.Value(upstream.Parse(filepath.Join(dir, "controllers", name)))(t)))(t)
}

// TestTables plays each case of the reference's tests under both managers. What differs has a row in the register of extras, and the page of
// results is current.
func TestTables(t *testing.T) {
	var results []tables.Row
	var mu sync.Mutex
	t.Run("cases", func(t *testing.T) {
		for _, name := range packages {
			if raceDetector && name == "service" {
				continue
			}
			for _, one := range cases(t, name) {
				if testing.Short() && one.Index > 0 {
					continue
				}
				t.Run(one.ID(), func(t *testing.T) {
					t.Parallel()
					row := judge(t, one)
					mu.Lock()
					defer mu.Unlock()
					results = append(results, row)
				})
			}
		}
	})
	if missing := must.Value(tables.Missing("../../.."))(t); len(missing) > 0 {
		t.Errorf("the register of extras lacks %q", missing)
	}
	if raceDetector || testing.Short() {
		return // the page has all cases
	}
	for _, one := range tables.Extras {
		if !slices.ContainsFunc(results, func(row tables.Row) bool {
			return slices.Contains(row.Extras, one.Row) || slices.Contains(row.Initialized, one.Row)
		}) {
			t.Errorf("no case shows the extra %q: remove it from register.go", one.Row)
		}
	}
	_, version, err := upstream.Module(t.Context(), "k8s.io/cloud-provider")
	must.NoError(t, err)
	text := tables.Page(version, results)
	if *update {
		must.NoError(t, os.WriteFile(page, text, 0o644))
		return
	}
	if diff := cmp.Diff(string(must.Value(os.ReadFile(page))(t)), string(text)); !t.Failed() && diff != "" {
		t.Errorf("dev/docs/reference-tables.md is not current: go test ./dev/reference/tables -run TestTables -update\n%s", diff)
	}
}

// judge plays a case. A difference that no row explains fails the test.
func judge(t *testing.T, one tables.Case) tables.Row {
	t.Helper()
	result, err := one.Play(t, managers.Mooring)
	return explain(t, one, result, err)
}

// explain returns the row of a case that was played. A difference that no row of the register explains fails the test.
func explain(t *testing.T, one tables.Case, result tables.Result, err error) tables.Row {
	t.Helper()
	row := tables.Row{Case: one}
	if errors.As(err, &row.Unplayable) {
		return row
	}
	must.NoError(t, err)
	var unexplained, more []string
	row.Extras, unexplained = one.Explain(result.Differences, false)
	if result.Twice {
		row.Twice = true
		row.Initialized, more = one.Explain(result.Initialized, true)
	}
	for _, difference := range append(unexplained, more...) {
		t.Errorf("no row of the register explains: %s", difference)
	}
	return row
}
