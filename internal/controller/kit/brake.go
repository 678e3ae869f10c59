package kit

import "time"

// Brake slows down what is done again and again because somebody else gives cause for it each time. The first few times are free; after
// that there is a pause before each, which doubles, until there has been no cause for a while. The zero value is ready. It is a value:
// who has a copy is not affected by what others do.
type Brake struct {
	// count is how often it was done in a row, last when the last time was.
	count int
	last  time.Time
}

const (
	// brakeFree is how often something may be done in a row before there are pauses.
	brakeFree = 3
	// brakeMemory is how long nothing must have been done for the row to end, or twice the present pause if that is longer.
	brakeMemory = time.Minute
)

// Holds reports whether there are pauses at a time. Of pauses, First and Longest are used.
func (b Brake) Holds(pauses Backoff, now time.Time) bool {
	return b.count >= brakeFree && now.Sub(b.last) < max(brakeMemory, 2*b.pause(pauses))
}

// Wait returns how long to wait until it may be done, zero or less if it may be done now.
func (b Brake) Wait(pauses Backoff, now time.Time) time.Duration {
	if !b.Holds(pauses, now) {
		return 0
	}
	return b.last.Add(b.pause(pauses)).Sub(now)
}

// After returns the brake after it has been done.
func (b Brake) After(pauses Backoff, now time.Time) Brake {
	if now.Sub(b.last) >= max(brakeMemory, 2*b.pause(pauses)) {
		b.count = 0
	}
	return Brake{count: b.count + 1, last: now}
}

// pause is that before the next time; before the first pause it is none.
func (b Brake) pause(pauses Backoff) time.Duration {
	if b.count < brakeFree {
		return 0
	}
	return pauses.After(b.count-brakeFree, nil)
}
