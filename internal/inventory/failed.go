package inventory

import (
	"errors"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/provider"
)

// maxHold bounds how long a cloud's Retry-After is obeyed without asking again, so that a wrong one cannot stop the
// process for good.
const maxHold = 10 * time.Minute

// gate keeps everybody from asking a cloud that has just refused: the quota it refused for is everybody's.
type gate struct {
	// atLeast is how long any error closes the gate; zero if only those do that ask for it.
	atLeast time.Duration

	mu    sync.Mutex
	until time.Time
	err   error
}

// closed returns the error that closed the gate, with the time that is left of its Retry-After, or nil if the gate is open.
func (g *gate) closed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := time.Until(g.until)
	if left <= 0 {
		return nil
	}
	var throttled *provider.ThrottledError
	if errors.As(g.err, &throttled) && throttled.RetryAfter > 0 {
		return &provider.ThrottledError{RetryAfter: left, Err: throttled.Err}
	}
	return g.err
}

// note closes the gate if err asks for it.
func (g *gate) note(err error) {
	if err == nil {
		return
	}
	hold := g.atLeast
	if wait, ok := provider.RetryAfter(err); ok {
		hold = max(hold, min(wait, maxHold))
	}
	if hold <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(hold); until.After(g.until) {
		g.until, g.err = until, err
	}
}
