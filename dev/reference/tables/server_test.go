package tables_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/reference/tables"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

// pairsVariable says how many pairs of real API servers play cases at the same time.
const pairsVariable = "MOORING_TABLES_PAIRS"

// TestRealAPIServers plays the first case of each test of the reference on real API servers, and compares its result with the result on the API server in
// memory. All cases would take 23 hours on one pair of API servers: managers wait for minutes in most of them.
func TestRealAPIServers(t *testing.T) {
	pairs := os.Getenv(pairsVariable)
	if pairs == "" {
		t.Skip(pairsVariable + " is not set: make test-all plays cases on real API servers")
	}
	count := must.Value(strconv.Atoi(pairs))(t)
	servers := make(chan [2]tables.Genuine, count)
	for range count {
		var pair [2]tables.Genuine
		for i := range pair {
			pair[i].Config = localclustertest.Start(t).AdminConfig()
		}
		servers <- pair
	}
	t.Run("cases", func(t *testing.T) {
		for _, name := range packages {
			for _, one := range cases(t, name) {
				if one.Index > 0 || raceDetector && name == "service" {
					continue
				}
				t.Run(one.ID(), func(t *testing.T) {
					t.Parallel()
					want := judge(t, one)
					pair := <-servers
					defer func() { servers <- pair }()
					result, err := one.PlayOn(t.Context(), managers.Mooring, pair[0], pair[1])
					if diff := cmp.Diff(text(want), text(explain(t, one, result, err))); diff != "" {
						t.Errorf("in memory and on real API servers (-memory +real):\n%s\n%s", diff, result.Differences)
					}
				})
			}
		}
	})
}

// text is all of a row but its case.
func text(row tables.Row) []string {
	return slices.Concat([]string{string(row.Unplayable)}, slices.Sorted(slices.Values(row.Extras)), []string{fmt.Sprint(row.Twice)},
		slices.Sorted(slices.Values(row.Initialized)))
}
