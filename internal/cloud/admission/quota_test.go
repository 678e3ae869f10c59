package admission

import (
	"testing"
	"time"
)

// simulated makes calls of a quota as fast as it lets them, against a bucket of the given rate and burst of which every answer
// takes a moment, and returns the quota afterwards and the refusals.
func simulated(q *quota, bucket *tokens, calls int) (refused int) {
	const takes = time.Millisecond
	for now := bucket.at; calls > 0; calls-- {
		now = later(now, q.ready(now))
		t := q.admit(now)
		now = now.Add(takes)
		if bucket.take(t.at) {
			q.accept(t)
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
			if q.rate < 0.85*want || q.rate > 1.2*want {
				t.Errorf("rate %v, burst %v: found %.2f", want, burst, q.rate)
			}
		}
	}
}

// TestRefusalsOfOneEventCountOnce: calls that were under way when the rate was cut say nothing new.
func TestRefusalsOfOneEventCountOnce(t *testing.T) {
	q, now := &quota{}, time.Unix(0, 0)
	var under []ticket
	for range 10 {
		now = later(now, q.ready(now))
		under = append(under, q.admit(now))
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
	if refused > 15 {
		t.Errorf("%d calls were refused on the way up, want 15 at the most", refused)
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

// TestTheRateIsLiftedAgain when the rate has held no call up for long.
func TestTheRateIsLiftedAgain(t *testing.T) {
	q, bucket := &quota{}, &tokens{rate: 10, burst: 10, left: 10, at: time.Unix(0, 0)}
	simulated(q, bucket, 100)
	if q.rate == 0 {
		t.Fatal("no rate was found")
	}
	now := bucket.at
	for range 12 {
		now = now.Add(time.Minute)
		q.ready(now)
		q.accept(q.admit(now))
	}
	if q.rate != 0 {
		t.Errorf("rate = %.2f after twelve minutes with a call a minute, want none", q.rate)
	}
}
