package kit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What has cause all the time is done three times at once, and then after pauses that double. After a time without cause it is free again.
func TestBrake(t *testing.T) {
	pauses := Backoff{First: 5 * time.Second, Longest: time.Minute}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var brake Brake
	now := began
	row := func(times int) (waits []time.Duration) {
		for range times {
			wait := brake.Wait(pauses, now)
			waits = append(waits, wait)
			now = now.Add(max(wait, 0))
			brake = brake.After(pauses, now)
		}
		return waits
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{0, 0, 0, 5 * s, 10 * s, 20 * s, 40 * s, 60 * s, 60 * s}, row(9)); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	now = now.Add(50 * s)
	if wait := brake.Wait(pauses, now); wait != 10*s {
		t.Errorf("%s to wait, want what is left of the pause", wait)
	}
	now = now.Add(20 * s)
	if wait := brake.Wait(pauses, now); wait > 0 || !brake.Holds(pauses, now) {
		t.Errorf("%s to wait, holds: %t", wait, brake.Holds(pauses, now))
	}
	now = now.Add(50 * s)
	if brake.Holds(pauses, now) {
		t.Error("it holds after a time without cause")
	}
	if diff := cmp.Diff([]time.Duration{0, 0, 0, 5 * s}, row(4)); diff != "" {
		t.Errorf("waits after a time without cause (-want +got):\n%s", diff)
	}
	for range 100 { // one now and then
		now = now.Add(time.Minute + s)
		if wait := brake.Wait(pauses, now); wait > 0 {
			t.Fatalf("%s to wait", wait)
		}
		brake = brake.After(pauses, now)
	}
}
