// Package reconnect makes the requests of watches wait while the API server is unavailable.
//
// client-go's reflectors back off after a failed request, up to 30 s and as much again by jitter, and informer factories do not
// let anybody change that. After an outage of a minute a watch may come back a minute late. Here the request does not fail: it
// is repeated until the API server answers it.
//
// The request itself is what is repeated, after short and jittered pauses. /readyz is not asked: it may fail while requests succeed.
//
// See ADR 55.
package reconnect

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/sleep"
)

// pauses are before the repetitions of a request: they double from an eighth of a second to a second, and jitter makes each up to twice as long.
var pauses = wait.Backoff{Duration: time.Second / 8, Factor: 2, Jitter: 1, Steps: 3}

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

// HTTPClient returns an HTTP client for clients whose requests are lists and watches of informers. A GET that gets no answer, or an answer
// that the server is at fault (5xx), is repeated until it is answered or its context ends. After kit.LongestRetry the failure is returned, so
// client-go counts and logs it. Other requests are sent as they are.
func (m *Monitor) HTTPClient(config *rest.Config) (*http.Client, error) {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("address of the API server %q: %w", config.Host, err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("HTTP client for the API server %s: %w", server, err)
	}
	waiting := *client // client-go may share it
	waiting.Transport = &transport{monitor: m, next: client.Transport, server: server.String()}
	return &waiting, nil
}

// transport is a RoundTripper whose requests wait for the API server.
type transport struct {
	monitor *Monitor
	next    http.RoundTripper
	// server is the address of the API server.
	server string
}

// RoundTrip sends a request, and again after a failure.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	failure := failureOf(request, response, err)
	if request.Method != http.MethodGet || (request.Body != nil && request.Body != http.NoBody) || failure == nil || request.Context().Err() != nil {
		return response, err
	}
	began, next := time.Now(), pauses
	for attempt := 0; time.Since(began) < kit.LongestRetry; attempt++ {
		drain(response)
		if sleep.For(request.Context(), next.Step()) {
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
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport that it made.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// failureOf returns why an answer may mean that the API server is unavailable, nil if it does not.
func failureOf(request *http.Request, response *http.Response, err error) error {
	if err == nil && response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("GET %s: %s", request.URL.Path, response.Status)
	}
	return err
}

// unavailable is failureOf for a request that has failed before: then a denial and an overload are part of the outage. API servers deny all in
// their first moments, until they know the roles.
func unavailable(request *http.Request, response *http.Response, err error) error {
	if err == nil {
		switch response.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
			return fmt.Errorf("GET %s: %s", request.URL.Path, response.Status)
		}
	}
	return failureOf(request, response, err)
}

// drainLimit is how much of an unneeded answer is read, in bytes, so its connection can be used again.
const drainLimit = 64 << 10

// drain ends an unneeded answer, if there is one.
func drain(response *http.Response) {
	if response == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, response.Body, drainLimit)
	_ = response.Body.Close()
}
