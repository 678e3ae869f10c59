package metal

import (
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/bench/metal/rack"
)

// measured returns figures of every row: 1, 3 and 2 for Mooring, four times that for MetalLB.
func measured() *Report {
	r := &Report{Services: 1000}
	for _, row := range r.rows() {
		for _, figure := range []float64{1, 3, 2} {
			r.add(row.name, rack.Mooring, figure)
			if row.of(rack.MetalLB) {
				r.add(row.name, rack.MetalLB, 4*figure)
			}
		}
	}
	return r
}

func TestPageHasTheMediansOnce(t *testing.T) {
	const before, after = "# Benchmarks\n\nBy hand.\n", "\n## More by hand\n"
	page, err := Page(before, measured())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"By hand.\n\n" + begin, "| 2.00 s | 8.00 s |", "meanwhile | 2 | 8 |", "Medians of 3.", "1000 Services", "`) | 2.00 s | – |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	changed := measured()
	changed.add(newService, rack.Mooring, 5)
	again, err := Page(page+after, changed)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(again, begin) != 1 || !strings.HasSuffix(again, after) || !strings.Contains(again, "| 2.50 s | 8.00 s |") {
		t.Errorf("the page after another run:\n%s", again)
	}
	if _, err := Page(begin, measured()); err == nil {
		t.Error("a page without the second mark was written")
	}
}

func TestPageNeedsAllFigures(t *testing.T) {
	some := measured()
	delete(some.Figures[killAll], rack.MetalLB)
	if _, err := Page("", some); err == nil {
		t.Error("a page without a figure was written")
	}
	if table := Table(some); !strings.Contains(table, "| 2.00 s | – |") {
		t.Errorf("the table has no gap:\n%s", table)
	}
}
