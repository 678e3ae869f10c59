package kit

import (
	"context"
	"time"
)

// Debounce makes one of changes that follow each other closely: it says when to act on them.
type Debounce struct {
	// Quiet is for how long there must be no further change.
	Quiet time.Duration
	// Most bounds the wait for that, from the first change on.
	Most time.Duration
}

// Await waits, after a change, until there is no other one for a while, or for long enough. If there is no other one at all, it waits
// for single, where that is longer than Quiet. It returns false when ctx ends.
func (d Debounce) Await(ctx context.Context, changes <-chan struct{}, single time.Duration) bool {
	wait := time.NewTimer(max(single, d.Quiet))
	defer wait.Stop()
	latest := time.NewTimer(max(single, 0) + d.Most)
	defer latest.Stop()
	for {
		select {
		case <-changes:
			wait.Reset(d.Quiet)
		case <-wait.C:
			return true
		case <-latest.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// Burst is a row of changes that still wait for an action, for callers that cannot block. The zero value has none.
type Burst struct{ first, last time.Time }

// Add notes a change.
func (b *Burst) Add(now time.Time) {
	if b.first.IsZero() {
		b.first = now
	}
	b.last = now
}

// Left returns how long to wait until it is time to act on a burst. Zero or less: it is time, or there was no change.
func (d Debounce) Left(burst Burst, now time.Time) time.Duration {
	if burst.first.IsZero() {
		return 0
	}
	return min(burst.last.Add(d.Quiet).Sub(now), burst.first.Add(d.Most).Sub(now))
}
