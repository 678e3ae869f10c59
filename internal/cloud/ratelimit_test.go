package cloud

import (
	"testing"
	"time"
)

// simulated makes calls of a quota as fast as it lets them, against a bucket of the given rate and burst of which every answer
// takes a moment, and returns the quota afterwards and the refusals.
func simulated(q *quota, bucket *tokens, calls int) (refused int) {
	const takes = time.Millisecond
	for now := bucket.at; calls > 0; calls-- {
		now = later(now, q.ready())
		t := q.admit(now, openPace)
		now = now.Add(takes)
		if bucket.take(t.at) {
			q.accept(t, now)
		} else {
			refused++
			q.refuse(t, 0, now)
		}
	}
	return refused
}

// tokens is a token bucket without a clock.
type tokens struct {
	rate, burst, left float64
	at                time.Time
}

func (b *tokens) take(now time.Time) bool {
	b.left = min(b.burst, b.left+b.rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func TestTheRateIsFound(t *testing.T) {
	for _, want := range []float64{1, 5, 20, 50, 150} {
		for _, burst := range []float64{1, 10, 100} {
			q, bucket := &quota{}, &tokens{rate: want, burst: burst, left: burst, at: time.Unix(0, 0)}
			simulated(q, bucket, 600)
			if q.found < 0.85*want || q.found > 1.1*want {
				t.Errorf("rate %v, burst %v: found %.2f", want, burst, q.found)
			}
		}
	}
}

// TestALateTimerSlowsNoCallsWithoutAQuota: what a timer is late by is made up for, but not a pause.
func TestALateTimerSlowsNoCallsWithoutAQuota(t *testing.T) {
	for late, want := range map[time.Duration]int{0: 1, 3 * openPace: 4, time.Minute: 1} {
		q, now := &quota{}, time.Unix(0, 0)
		q.admit(now, openPace)
		now = now.Add(openPace + late)
		admitted := 0
		for ; !q.ready().After(now); admitted++ {
			q.admit(now, openPace)
		}
		if admitted != want {
			t.Errorf("%d calls are let in by a timer that is late by %s, want %d", admitted, late, want)
		}
	}
}

// TestRefusalsOfOneEventCountOnce: calls that were under way when the rate was cut say nothing new.
func TestRefusalsOfOneEventCountOnce(t *testing.T) {
	q, now := &quota{}, time.Unix(0, 0)
	var under []ticket
	for range 10 {
		now = later(now, q.ready())
		under = append(under, q.admit(now, openPace))
	}
	q.refuse(under[0], 0, now)
	cut := q.rate
	for _, t := range under[1:] {
		q.refuse(t, 0, now.Add(time.Second))
	}
	if q.rate != cut || cut == 0 {
		t.Errorf("rate = %v after ten refusals of one event, want %v as after the first", q.rate, cut)
	}
}

// TestARateThatWasRaisedIsFound: the way up is slow at the rate that was found, and quick beyond it.
func TestARateThatWasRaisedIsFound(t *testing.T) {
	q, bucket := &quota{}, &tokens{rate: 10, burst: 10, left: 10, at: time.Unix(0, 0)}
	simulated(q, bucket, 600)
	bucket.rate, bucket.burst = 100, 100
	began := bucket.at
	refused := simulated(q, bucket, 20000)
	if q.rate < 80 {
		t.Errorf("rate = %.1f %s after the quota was raised from 10 to 100, want 80 at least", q.rate, bucket.at.Sub(began))
	}
	if refused > 10 {
		t.Errorf("%d calls were refused on the way up, want 10 at the most", refused)
	}
}

func TestARateThatWasCutIsFound(t *testing.T) {
	q, bucket := &quota{}, &tokens{rate: 100, burst: 10, left: 10, at: time.Unix(0, 0)}
	simulated(q, bucket, 600)
	bucket.rate = 2
	if refused := simulated(q, bucket, 200); q.rate > 2.1 || refused > 15 {
		t.Errorf("rate = %.2f and %d refused after the quota was cut from 100 to 2", q.rate, refused)
	}
}

// TestTheRateIsLiftedAgain when the rate has held nobody up for long.
func TestTheRateIsLiftedAgain(t *testing.T) {
	q, bucket := &quota{}, &tokens{rate: 10, burst: 10, left: 10, at: time.Unix(0, 0)}
	simulated(q, bucket, 100)
	if q.rate == 0 {
		t.Fatal("no rate was found")
	}
	now := bucket.at
	for range 12 {
		now = now.Add(time.Minute)
		q.accept(q.admit(now, openPace), now)
	}
	if q.rate != 0 {
		t.Errorf("rate = %.2f after twelve minutes with a call a minute, want none", q.rate)
	}
}

func TestTheWindowFallsBackWhenIdle(t *testing.T) {
	now := time.Unix(0, 0)
	w := newWindow(64).admitted(now)
	for range 200 {
		w = w.answered(w.size, false)
	}
	if w.size != 64 {
		t.Fatalf("window = %d after 200 answers, want 64", w.size)
	}
	for idle, want := range map[time.Duration]int{windowIdle - 1: 64, windowIdle: 32, 2 * windowIdle: 16, time.Hour: firstWindow} {
		if got := w.admitted(now.Add(idle)).size; got != want {
			t.Errorf("window = %d after %s, want %d", got, idle, want)
		}
	}
	if got := newWindow(64).answered(2, false).size; got != firstWindow {
		t.Errorf("window = %d while two calls are under way, want it to stay at %d", got, firstWindow)
	}
	if got := newWindow(4).size; got != 4 {
		t.Errorf("window = %d, want no more than the bound of 4", got)
	}
}
