package power

import (
	"math/rand/v2"
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

const (
	// startSpread is the time over which the first readings are spread, if the interval is not shorter.
	startSpread = 2 * time.Second
	// maxBackoff is the longest time between two attempts at a controller that fails, if the interval is not longer.
	maxBackoff = time.Minute
)

// pause returns how long to wait after an attempt. The reading that confirms an off does not wait for its turn; and a controller
// that fails is left alone for longer and longer, once what it said last no longer counts.
func pause(h history, settings config.Power) time.Duration {
	interval := settings.Interval.Duration
	switch excess := h.failures - settings.StaleAfter; {
	case h.failures == 0 && h.reading.State == Off && !h.confirmed():
		return min(interval, ConfirmAfter)
	case excess > 0:
		return max(interval, min(interval<<min(excess, 10), maxBackoff))
	default:
		return interval
	}
}

// jittered lengthens a pause by up to a tenth, so controllers which were asked together are not forever.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d/10+1)
}

// counts returns for how long a reading counts.
func counts(settings config.Power) time.Duration {
	return time.Duration(settings.StaleAfter) * settings.Interval.Duration
}
