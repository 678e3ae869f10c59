package kit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

var debounce = Debounce{Quiet: 500 * time.Millisecond, Most: 2 * time.Second}

func TestDebounceAwaits(t *testing.T) {
	for name, test := range map[string]struct {
		alone   time.Duration
		changes []time.Duration // those after the first
		want    time.Duration
	}{
		"no other change":                     {want: debounce.Quiet},
		"no other change, which has its time": {alone: 1700 * time.Millisecond, want: 1700 * time.Millisecond},
		"its time is over":                    {alone: -time.Minute, want: debounce.Quiet},
		"other changes":                       {changes: each(400*time.Millisecond, 3), want: 1200*time.Millisecond + debounce.Quiet},
		"other changes do not wait for alone": {alone: 1700 * time.Millisecond, changes: each(300*time.Millisecond, 1), want: 300*time.Millisecond + debounce.Quiet},
		"changes without end":                 {changes: each(400*time.Millisecond, 50), want: debounce.Most},
		"changes without end, later":          {alone: time.Second, changes: each(400*time.Millisecond, 50), want: time.Second + debounce.Most},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changes := make(chan struct{}, 1)
				for _, after := range test.changes {
					timer := time.AfterFunc(after, func() {
						select {
						case changes <- struct{}{}:
						default:
						}
					})
					defer timer.Stop()
				}
				start := time.Now()
				if !debounce.Await(t.Context(), changes, test.alone) {
					t.Error("it says that the context has ended")
				}
				if took := time.Since(start); took != test.want {
					t.Errorf("it waited for %s, want %s", took, test.want)
				}
			})
		})
	}
}

func each(pause time.Duration, times int) []time.Duration {
	var all []time.Duration
	for i := range times {
		all = append(all, time.Duration(i+1)*pause)
	}
	return all
}

func TestDebounceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if debounce.Await(ctx, nil, 0) {
			t.Error("it says that it is time")
		}
	})
}

func TestBurst(t *testing.T) {
	var burst Burst
	if left := debounce.Left(burst, start); left != 0 {
		t.Errorf("%s are left of no changes", left)
	}
	for _, step := range []struct{ change, look, want time.Duration }{
		{0, 0, 500 * time.Millisecond},
		{300 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond},
		{1900 * time.Millisecond, 1900 * time.Millisecond, 100 * time.Millisecond}, // the first was long ago
		{1900 * time.Millisecond, 3 * time.Second, -time.Second},
	} {
		burst.Add(start.Add(step.change))
		if left := debounce.Left(burst, start.Add(step.look)); left != step.want {
			t.Errorf("%s are left at %s, want %s", left, step.look, step.want)
		}
	}
}
