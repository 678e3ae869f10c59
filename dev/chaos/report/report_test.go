package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/checker"
	"github.com/mooring-ccm/mooring/dev/chaos/report"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

func samples(count int, memory func(i int) float64) []report.Sample {
	var made []report.Sample
	for i := range count {
		made = append(made, report.Sample{
			At: float64(10 * i), Replica: "a", Memory: memory(i) * (1 << 20), Heap: 50 << 20, Goroutines: 400, Files: 30,
		})
	}
	return made
}

func TestGrowth(t *testing.T) {
	for name, test := range map[string]struct {
		samples []report.Sample
		flat    bool
	}{
		"flat":              {samples(40, func(int) float64 { return 200 }), true},
		"caches are filled": {samples(40, func(i int) float64 { return 100 + float64(min(i, 10))*20 }), true},
		"it grows":          {samples(40, func(i int) float64 { return 100 + float64(i)*10 }), false},
		"too few":           {samples(5, func(int) float64 { return 200 }), false},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			if got := report.WriteGrowths(&text, test.samples); got != test.flat {
				t.Errorf("flat: %t, want %t\n%s", got, test.flat, &text)
			}
		})
	}
	other := samples(40, func(int) float64 { return 200 })
	other[39].Replica = "b"
	if got := report.Growths(other); got != nil {
		t.Errorf("two processes are compared: %v", got)
	}
}

func TestReport(t *testing.T) {
	s := schedule.Schedule{{Verb: schedule.CloudHang}, {Verb: schedule.CloudHang}, {Verb: schedule.NodesJoin}}
	recoveries := []checker.Recovery{{Verb: schedule.CloudHang, Took: 3 * time.Second}, {Verb: schedule.CloudHang, Took: 7 * time.Second}}
	found := report.New(s, nil, map[string]int{checker.NodeKept: 5}, recoveries, time.Minute, 12)
	var text strings.Builder
	found.Write(&text)
	for _, part := range []string{"2  cloud-hang", "7.0 s  cloud-hang", "5  node-kept", "12 calls", "All rules held."} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is not in\n%s", part, &text)
		}
	}
	found.Clocks = []report.Clock{{Writes: 12, Ahead: 419.96}, {Writes: 3, Ahead: -0.01}}
	text.Reset()
	found.Write(&text)
	if want := "Replica 1 wrote the lease 12 times, at most 420.0 s ahead"; !strings.Contains(text.String(), want) {
		t.Errorf("%q is not in\n%s", want, &text)
	}
	found.Violations = make([]checker.Violation, 25)
	text.Reset()
	found.Write(&text)
	if !strings.Contains(text.String(), "25 times") || !strings.Contains(text.String(), "and 5 more") {
		t.Errorf("violations are not summed up:\n%s", &text)
	}
}
