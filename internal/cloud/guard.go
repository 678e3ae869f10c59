package cloud

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// ErrUnavailable says that a call was not made, because the cloud has failed all calls of its kind for a while.
var ErrUnavailable = errors.New("the cloud is not available")

// UnavailableError is an ErrUnavailable that says for what, since when and why.
type UnavailableError struct {
	// Group is what the calls are about: instances, load_balancers or routes.
	Group string
	// Since is when the first of the calls failed that have all failed until now.
	Since time.Time
	// Err is the newest of their errors.
	Err error
}

// Error says since when the cloud has failed, and how.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%v for %s since %s: %v", ErrUnavailable, e.Group, e.Since.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns ErrUnavailable and the newest error.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// group is what calls fail together with: one broken kind of calls must not hold up the others.
type group int

// The groups of calls.
const (
	instanceCalls group = iota
	loadBalancerCalls
	routeCalls
	groups
)

// String returns the group as the label of a metric.
func (g group) String() string { return [...]string{"instances", "load_balancers", "routes"}[g] }

// subject is what a call is and what it is about.
type subject struct {
	operation string // the plugin's method
	group     group
	object    string // a node, a Service, a route; empty for a listing
}

// guard holds calls back while the cloud fails all of their group.
type guard struct {
	metrics *metrics

	mu       sync.Mutex
	breakers [groups]breaker
	closed   [groups]chan struct{} // closed when the breaker is
}

func newGuard(metrics *metrics) *guard {
	g := &guard{metrics: metrics}
	for i := range groups {
		g.closed[i] = make(chan struct{})
		metrics.breakerOpen.WithLabelValues(i.String()).Set(0)
	}
	return g
}

// enter returns when a call of the group may be made. While the cloud fails them all, a refresh is an UnavailableError at once,
// and any other call after it has waited in vain for its turn to try.
func (g *guard) enter(ctx context.Context, about group) error {
	patience := time.Now().Add(lastTry)
	for {
		wait, closed, err := g.try(about)
		if wait <= 0 {
			return nil
		}
		if PriorityOf(ctx) == PriorityRefresh || time.Now().Add(wait).After(patience) {
			return err
		}
		turn := time.NewTimer(wait)
		select {
		case <-turn.C:
		case <-closed:
			turn.Stop()
		case <-ctx.Done():
			turn.Stop()
			return context.Cause(ctx)
		}
	}
}

// try takes a turn. If it is not time for one, it returns how long not, what is closed if the cloud answers meanwhile, and why.
func (g *guard) try(about group) (wait time.Duration, closed <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	after, let, next := g.breakers[about].admit(now)
	g.breakers[about] = after
	if let {
		return 0, nil, nil
	}
	return next.Sub(now), g.closed[about], &UnavailableError{Group: about.String(), Since: after.since, Err: after.err}
}

// leave learns what became of a call.
func (g *guard) leave(ctx context.Context, about subject, outcome string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.breakers[about.group]
	after := before
	switch outcome {
	case outcomeError, outcomeTimeout:
		after = before.failed(about.object, err, time.Now())
	case outcomeThrottled, outcomeCanceled: // says nothing
	default:
		after = before.answered()
	}
	g.breakers[about.group] = after
	logger := logr.FromContextOrDiscard(ctx).WithValues("group", about.group.String())
	switch {
	case after.open && !before.open:
		g.metrics.breakerOpen.WithLabelValues(about.group.String()).Set(1)
		logger.Error(err, "The cloud fails all calls, holding them back", "since", after.since, "failures", after.failures)
	case before.open && !after.open:
		g.metrics.breakerOpen.WithLabelValues(about.group.String()).Set(0)
		logger.Info("The cloud answers again", "since", before.since)
		close(g.closed[about.group])
		g.closed[about.group] = make(chan struct{})
	}
}
