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

	"github.com/mooring-ccm/mooring/internal/sleep"
)

const (
	// firstPause is before the first repetition of a request. It doubles with each repetition, up to maxBackoff. What is slept is between half
	// of it and all of it.
	firstPause = 250 * time.Millisecond
	maxBackoff = 2 * time.Second
	// maxWait is how long a request is repeated that gets no answer of an API server.
	maxWait = 5 * time.Minute
	// failingLimit is the same where the API server itself answers that it fails, or denies the request. All do in their first moments, until
	// they know the roles.
	failingLimit = 30 * time.Second
)

// Monitor counts the requests that wait for the API server, for the log. Its methods may be called from several goroutines.
type Monitor struct {
	logger logr.Logger

	mu      sync.Mutex
	waiting int
	began   time.Time
}

// New returns a Monitor of an API server that is available as far as known.
func New(logger logr.Logger) *Monitor { return &Monitor{logger: logger} }

// begin notes that a request waits that has failed twice.
func (m *Monitor) begin(server string, failure error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting++; m.waiting == 1 {
		m.began = time.Now()
		m.logger.Info("API server unavailable; watches wait", "url", server, "reason", failure.Error())
	}
}

// end notes that such a request no longer waits.
func (m *Monitor) end(server string, failure error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting--; m.waiting == 0 && failure == nil {
		m.logger.Info("API server available again; watches resume", "url", server, "waited", time.Since(m.began).Round(100*time.Millisecond).String())
	}
}

// repeat sends a request again until it is answered. It returns the last failure when it has waited for long enough, and an error of the
// context when that ends.
func (t *transport) repeat(request *http.Request, response *http.Response, err error) (*http.Response, error) {
	failure := failureOf(request, response, err)
	began := time.Now()
	since, limit := began, limitOf(failure)
	for attempt := 0; time.Since(since) < limit && time.Since(began) < maxWait; attempt++ {
		drain(response)
		if pause(request.Context(), attempt) {
			response, err = t.next.RoundTrip(request)
		}
		last := failure
		if failure = unavailable(request, response, err); failure == nil {
			return response, err
		}
		if ended := request.Context().Err(); ended != nil {
			drain(response)
			// The failure is not wrapped: client-go's reflectors sleep after a refused connection, even when they are to end.
			return nil, fmt.Errorf("%w while waiting for the API server: %v", ended, last)
		}
		if attempt == 0 {
			t.monitor.begin(t.server, failure)
			defer func() { t.monitor.end(t.server, failure) }()
		}
		if limit = limitOf(failure); limit != limitOf(last) {
			since = time.Now()
		}
	}
	return response, err
}

// pause sleeps before a repetition, and reports whether ctx goes on.
func pause(ctx context.Context, attempt int) bool {
	longest := maxBackoff
	if attempt < 3 {
		longest = firstPause << attempt
	}
	return sleep.For(ctx, wait.Jitter(longest/2, 1))
}

// unavailable is failureOf for a request that has failed before: then a denial and an overload are part of the outage.
func unavailable(request *http.Request, response *http.Response, err error) error {
	if err == nil {
		switch response.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
			return &statusError{path: request.URL.Path, status: response.Status, code: response.StatusCode}
		}
	}
	return failureOf(request, response, err)
}

// limitOf returns how long a request is repeated that fails in this way.
func limitOf(failure error) time.Duration {
	var answer *statusError
	if !errors.As(failure, &answer) {
		return maxWait
	}
	switch answer.code {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout: // a proxy that reaches no API server
		return maxWait
	}
	return failingLimit
}
