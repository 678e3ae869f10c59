package shrink_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/dev/chaos/shrink"
)

// needs fails where all of the times are.
func needs(times ...time.Duration) func(schedule.Schedule) bool {
	return func(s schedule.Schedule) bool {
		for _, at := range times {
			if !slices.ContainsFunc(s, func(o schedule.Operation) bool { return o.At == at }) {
				return false
			}
		}
		return true
	}
}

func numbered(count int) schedule.Schedule {
	var s schedule.Schedule
	for i := range count {
		s = append(s, schedule.Operation{At: time.Duration(i), Verb: schedule.Converge})
	}
	return s
}

func TestShortest(t *testing.T) {
	for name, test := range map[string]struct {
		count int
		needs []time.Duration
	}{
		"one":              {64, []time.Duration{17}},
		"the last":         {33, []time.Duration{32}},
		"two far apart":    {50, []time.Duration{1, 48}},
		"many":             {40, []time.Duration{0, 3, 9, 20, 21, 39}},
		"all":              {5, []time.Duration{0, 1, 2, 3, 4}},
		"it is short":      {1, []time.Duration{0}},
		"every second one": {8, []time.Duration{1, 3, 5, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			got := shrink.Shortest(numbered(test.count), 10_000, needs(test.needs...))
			var times []time.Duration
			for _, o := range got {
				times = append(times, o.At)
			}
			if !slices.Equal(times, test.needs) {
				t.Errorf("got %v, want %v", times, test.needs)
			}
		})
	}
}

// What is left when the tries are used up still fails.
func TestTriesAreBounded(t *testing.T) {
	asked := 0
	fails := needs(5, 60)
	got := shrink.Shortest(numbered(100), 6, func(s schedule.Schedule) bool {
		asked++
		return fails(s)
	})
	if asked > 6 || !fails(got) || len(got) == 100 {
		t.Errorf("asked %d times, %d operations are left, which fail: %t", asked, len(got), fails(got))
	}
}
