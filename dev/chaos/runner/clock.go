package runner

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/report"
)

// leaseClock is what the writes of the lease show of the clock of a replica.
type leaseClock struct {
	mu     sync.Mutex
	writes int
	// ahead is the most that the time of a renewal was later than the arrival of its answer: less than the clock is ahead by what
	// the write took, and by all of a pause meanwhile.
	ahead time.Duration
}

// note notes the time that a replica wrote into the lease.
func (c *leaseClock) note(renewed, arrived time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ahead := renewed.Sub(arrived); c.writes == 0 || ahead > c.ahead {
		c.ahead = ahead
	}
	c.writes++
}

func (c *leaseClock) read() report.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return report.Clock{Writes: c.writes, Ahead: c.ahead.Seconds()}
}

// checkClocks says whether a run had what it was to have: a replica that led with a clock that is ahead, and another one without.
func checkClocks(ahead time.Duration, first, second report.Clock) error {
	half, whole := (ahead / 2).Seconds(), ahead.Seconds()
	switch {
	case first.Writes == 0:
		return errors.New("the replica whose clock is ahead never had the lease, so the run proves nothing: take another seed, or a longer schedule")
	case first.Ahead < half || first.Ahead > whole+1:
		return fmt.Errorf("the renewals of the replica whose clock is %s ahead were ahead by %.1f s: package clock does not fit this version of Go", ahead, first.Ahead)
	case second.Writes > 0 && second.Ahead > half:
		return fmt.Errorf("the renewals of the replica whose clock is right were ahead by %.1f s", second.Ahead)
	default:
		return nil
	}
}
