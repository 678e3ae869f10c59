package reconnect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// firstPause is before the first probe of an outage. It doubles with each probe, up to longestPause. What is slept is between
	// half of it and all of it.
	firstPause   = 250 * time.Millisecond
	longestPause = 2 * time.Second
	// probeTimeout bounds one probe, because a server that is gone without a word does not refuse connections.
	probeTimeout = 5 * time.Second
	// unreadyLimit is how long requests wait for an API server that says itself that it is not ready. If it takes longer than a
	// start usually takes, it may still serve watches.
	unreadyLimit = 30 * time.Second
	// deniedLimit is the same for an API server that denies the question. All do in their first moments, until they know the
	// roles; some clusters let nobody ask.
	deniedLimit = 10 * time.Second
	// maxWait is how long one request waits.
	maxWait = 5 * time.Minute
)

// Monitor knows whether the API server is unavailable, as far as the requests of its HTTP clients show. All of them have to be
// for the same API server. Its methods may be called from several goroutines.
type Monitor struct {
	logger logr.Logger

	mu sync.Mutex
	// outage is nil while nothing is known to be wrong.
	outage *outage
}

// New returns a Monitor of an API server that is ready as far as known.
func New(logger logr.Logger) *Monitor { return &Monitor{logger: logger} }

// outage is the time from a failed request until a probe says that the API server is ready. The fields below over are guarded by
// the Monitor.
type outage struct {
	began time.Time
	// probing holds an element while a request probes for all.
	probing chan struct{}
	// over is closed at the end.
	over chan struct{}

	failure error
	// pause is until the next probe, counted from the begin of the last one.
	pause    time.Duration
	attempts int
	probed   time.Time
	// unready is since when the API server answers that it is not ready, zero if it did not answer last.
	unready time.Time
	// logged says that the log has a line about this outage.
	logged bool
}

// current returns the outage, or nil if there is no outage.
func (m *Monitor) current() *outage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.outage
}

// begin returns the outage that a failed request is part of. Whether it is one at all, the first probe says; only then is it
// logged.
func (m *Monitor) begin(failure error) *outage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outage == nil {
		now := time.Now()
		m.outage = &outage{began: now, probing: make(chan struct{}, 1), over: make(chan struct{}), failure: failure, probed: now}
		m.outage.pause = pauseBefore(0)
	}
	return m.outage
}

// pauseBefore returns the time between the probe with this number and the one before.
func pauseBefore(attempt int) time.Duration {
	longest := longestPause
	if attempt < 3 {
		longest = firstPause << attempt
	}
	return wait.Jitter(longest/2, 1)
}

// wait blocks until the outage is over or the request has waited for maxWait. It returns an error only when ctx ends.
func (t *transport) wait(ctx context.Context, o *outage) error {
	bounded, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case <-o.over:
	case <-bounded.Done():
	case o.probing <- struct{}{}:
		t.probeUntilReady(bounded, o)
	}
	if err := ctx.Err(); err != nil {
		// The failure is not wrapped: client-go's reflectors sleep after a refused connection, even when they are to end.
		return fmt.Errorf("%w while waiting for the API server: %v", err, t.monitor.lastFailure(o))
	}
	return nil
}

// probeUntilReady probes for all that wait, until the outage is over or ctx ends. If ctx ends first, another request takes over.
func (t *transport) probeUntilReady(ctx context.Context, o *outage) {
	defer func() { <-o.probing }()
	for !o.ended() {
		timer := time.NewTimer(t.monitor.untilNextProbe(o))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		began := time.Now()
		err := t.probe(ctx)
		if err != nil && ctx.Err() != nil { // that says nothing about the API server
			return
		}
		t.monitor.record(o, began, err, t.server)
	}
}

// ended reports whether the outage is over. Only the request that probes ends it.
func (o *outage) ended() bool {
	select {
	case <-o.over:
		return true
	default:
		return false
	}
}

// probe asks the API server whether it is ready.
func (t *transport) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.readyz, nil)
	if err != nil {
		return err
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return err
	}
	defer drain(response)
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return &statusError{path: request.URL.Path, status: response.Status, code: response.StatusCode}
	}
	return failureOf(request, response, nil)
}

// untilNextProbe returns how long to wait for the next probe, which does not depend on who makes it.
func (m *Monitor) untilNextProbe(o *outage) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Until(o.probed.Add(o.pause))
}

// lastFailure returns the last failure of an outage.
func (m *Monitor) lastFailure(o *outage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return o.failure
}

// record takes in the result of a probe.
func (m *Monitor) record(o *outage, began time.Time, failure error, server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failure == nil {
		if o.logged {
			m.logger.Info("API server available again; watches resume", "url", server, "waited", sinceRounded(o.began))
		}
		m.end(o)
		return
	}
	o.attempts++
	o.failure, o.probed, o.pause = failure, began, pauseBefore(o.attempts)
	if !o.logged {
		o.logged = true
		m.logger.Info("API server unavailable; watches wait until it is ready", "url", server, "reason", failure.Error())
	}
	limit, answered := limitOf(failure)
	switch {
	case !answered:
		o.unready = time.Time{}
	case o.unready.IsZero():
		o.unready = time.Now()
	case time.Since(o.unready) >= limit:
		m.logger.Info("API server still not ready; watches resume anyway", "url", server, "waited", sinceRounded(o.began),
			"reason", failure.Error())
		m.end(o)
	}
}

// end releases all that wait. It is called with the lock held.
func (m *Monitor) end(o *outage) {
	close(o.over)
	m.outage = nil
}

// limitOf returns how long requests wait while probes fail in this way, and whether it is the API server that answered. Statuses
// of a proxy or a load balancer that does not reach it are none of its own.
func limitOf(failure error) (limit time.Duration, answered bool) {
	var answer *statusError
	if !errors.As(failure, &answer) {
		return 0, false
	}
	switch answer.code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return deniedLimit, true
	case http.StatusInternalServerError, http.StatusTooManyRequests:
		return unreadyLimit, true
	}
	return 0, false
}

func sinceRounded(began time.Time) string {
	return time.Since(began).Round(100 * time.Millisecond).String()
}
