package nodelifecycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

func TestSchedule(t *testing.T) {
	for name, test := range map[string]struct {
		period time.Duration
		again  time.Duration   // when denials can be decided about, if there are any
		due    []time.Duration // when nodes come to need a look
		want   time.Duration
	}{
		"nothing happens":                        {period: time.Minute, want: time.Minute},
		"a denial waits for its confirmation":    {period: time.Minute, again: time.Nanosecond, want: shortPause},
		"a denial waits for its time":            {period: time.Minute, again: 20 * time.Second, want: 20 * time.Second},
		"a denial waits for longer":              {period: time.Minute, again: time.Hour, want: time.Minute},
		"the period is shorter than that":        {period: time.Second, again: time.Nanosecond, want: time.Second},
		"a node becomes silent":                  {period: time.Minute, due: []time.Duration{20 * time.Second}, want: 20*time.Second + kit.NodesQuiet},
		"a node becomes silent at once":          {period: time.Minute, due: []time.Duration{0}, want: shortPause},
		"one after the other":                    {period: time.Minute, due: every(300*time.Millisecond, 10*time.Second, 4), want: 10*time.Second + 900*time.Millisecond + kit.NodesQuiet},
		"one after the other, without end":       {period: time.Minute, due: every(300*time.Millisecond, 10*time.Second, 90), want: 10*time.Second + shortPause},
		"a node becomes silent, a short period":  {period: time.Second, due: []time.Duration{100 * time.Millisecond}, want: time.Second},
		"a node becomes silent while one waits":  {period: time.Minute, again: time.Nanosecond, due: []time.Duration{time.Second}, want: shortPause},
		"a node becomes silent late in a period": {period: time.Minute, due: []time.Duration{time.Minute - time.Millisecond}, want: time.Minute - time.Millisecond + kit.NodesQuiet},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				due := make(chan struct{}, 1)
				for _, after := range test.due {
					timer := time.AfterFunc(after, func() {
						select {
						case due <- struct{}{}:
						default:
						}
					})
					defer timer.Stop()
				}
				start, again := time.Now(), time.Time{}
				if test.again > 0 {
					again = start.Add(test.again)
				}
				if !await(t.Context(), test.period, due, again) {
					t.Error("it says that the context has ended")
				}
				if took := time.Since(start); took != test.want {
					t.Errorf("the next pass begins after %s, want %s", took, test.want)
				}
			})
		})
	}
}

func every(pause, from time.Duration, times int) []time.Duration {
	var all []time.Duration
	for i := range times {
		all = append(all, from+time.Duration(i)*pause)
	}
	return all
}

func TestScheduleEndsWithItsContext(t *testing.T) {
	for name, due := range map[string]chan struct{}{"in a period": nil, "ahead of time": make(chan struct{}, 1)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if due != nil {
					due = make(chan struct{}, 1) // of this bubble
					due <- struct{}{}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if await(ctx, time.Minute, due, time.Time{}) {
					t.Error("it says that a pass is due")
				}
			})
		})
	}
}
