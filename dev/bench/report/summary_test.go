package report_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/report"
)

func TestSummaryMarksEveryTargetThatWasMissed(t *testing.T) {
	run := measured()
	summary := report.Summary(run, 3*time.Minute)
	missed := 0
	for _, check := range figures.Checks(run) {
		who := map[string]string{figures.MooringDefault: "nothing set", figures.MooringPlain: "same flags", figures.MooringBulk: "bulk"}[check.Variant]
		line := regexp.MustCompile(regexp.QuoteMeta(check.Says) + ` +` + who + ` +≤ .*`).FindString(summary)
		if line == "" {
			t.Errorf("%s of %s is not listed", check.Target, check.Variant)
		}
		if marked := strings.HasSuffix(line, "MISSED"); marked == check.Met() {
			t.Errorf("marked %t, met %t: %s", marked, check.Met(), line)
		}
		if !check.Met() {
			missed++
		}
	}
	if missed == 0 || missed == len(figures.Checks(run)) {
		t.Fatalf("%d targets are missed: the figures do not tell a mark from none", missed)
	}
	for _, want := range []string{
		"≤ × 0.90  × 1.50      MISSED", "≤ × 1.20  > × 120.00  MISSED", "≤ × 1.05  × 1.50      MISSED", "\nTargets missed: 4 of 8.\n",
		"Given up: join-5000, reference, > 300 s (2,010 of 5,000).", "The whole run took 3m0s, 2m0s of it measuring.\n",
	} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary lacks %q:\n%s", want, summary)
		}
	}
}

func TestSummaryMarksUnfinishedScenarios(t *testing.T) {
	run := measured()
	for _, variant := range []string{figures.ReferenceTuned, figures.MooringPlain} {
		run.Results = append(run.Results, figures.Result{Scenario: "routes-1000", Variant: variant, Seconds: 240, Done: 5, Of: 1000})
	}
	summary := report.Summary(run, time.Minute)
	if want := "≤ × 0.50  given up    MISSED\n"; !strings.Contains(summary, want) {
		t.Errorf("the summary lacks %q:\n%s", want, summary)
	}
}

func TestSummarySaysWhenARunTookTooLong(t *testing.T) {
	for name, test := range map[string]struct {
		cores int
		whole time.Duration
		want  bool
	}{
		"two cores, in time":   {2, report.WholeLimit, false},
		"two cores, too long":  {2, report.WholeLimit + time.Second, true},
		"four cores, too long": {4, report.WholeLimit + time.Second, true},
		"one core":             {1, 2 * report.WholeLimit, false},
	} {
		t.Run(name, func(t *testing.T) {
			run := measured()
			run.Machine.Cores = test.cores
			if summary := report.Summary(run, test.whole); strings.Contains(summary, "TOO LONG: at most 1h10m0s") != test.want {
				t.Errorf("want it to be said: %t:\n%s", test.want, summary)
			}
		})
	}
}

func TestSummaryOfNothing(t *testing.T) {
	if summary := report.Summary(figures.Report{}, time.Minute); !strings.HasPrefix(summary, "No target was measured.\n") {
		t.Errorf("the summary is %q", summary)
	}
}
