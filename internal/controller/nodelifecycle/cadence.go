package nodelifecycle

import (
	"context"
	"time"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

const (
	// quiet is for how long no further node must have come to need a look before a pass begins ahead of its time, so that a rack
	// that loses its power is one pass. gathering bounds the wait for that.
	quiet     = 500 * time.Millisecond
	gathering = 2 * time.Second
	// shortPause is the pause between two passes where something waits for the next one: nodes that came to need a look, and
	// denials that lack a confirmation. The whole period would keep the Pods of a node that is gone waiting for nothing.
	shortPause = 2 * time.Second
)

// cadence says when passes begin: a period after the last one ended, and sooner where something waits for it.
type cadence struct {
	period time.Duration
	// due receives when a node has come to need a look.
	due <-chan struct{}
}

// await waits for the time of the next pass, given when it could decide about denials that the last one left; zero if there are
// none. It returns false when ctx ends.
func (c cadence) await(ctx context.Context, again time.Time) bool {
	shortest := min(c.period, shortPause)
	soonest := time.Now().Add(shortest)
	pause := c.period
	if !again.IsZero() {
		pause = min(c.period, max(shortest, time.Until(again)))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-c.due:
	}
	return kit.Debounce{Quiet: quiet, Most: gathering}.Await(ctx, c.due, time.Until(soonest))
}
