// Package reconnect makes the requests of watches wait while the API server is unavailable.
//
// client-go's reflectors back off after a failed request, up to 30 s and as much again by jitter, and informer factories do not
// let anybody change that. After an outage of a minute a watch may come back a minute late. Here the request does not fail: it
// waits, and is sent when the API server is ready again.
//
// All watches of a process share one Monitor, and one request asks for all of them whether the API server is ready. The pauses
// between these probes are short and jittered, so that neither the watches of one process nor many processes come at once.
//
// See ADR 55.
package reconnect

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// HTTPClient returns an HTTP client for clients whose requests are lists and watches of informers. A GET that gets no answer, or
// an answer that the server is at fault (5xx), waits until the API server is ready and is then sent once more; what comes of that
// is returned. A GET that begins during an outage waits, too.
//
// A request waits until its context ends, at most 5 minutes. Then it is sent anyway, so that client-go counts and logs the
// failure. Other requests are sent as they are.
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
	waiting.Transport = &transport{monitor: m, next: client.Transport, server: server.String(), readyz: server.JoinPath("readyz").String()}
	return &waiting, nil
}

// transport is a RoundTripper whose requests wait for the API server.
type transport struct {
	monitor *Monitor
	next    http.RoundTripper
	// server is the address of the API server, readyz that of its readiness.
	server, readyz string
}

// RoundTrip sends a request, and once more after an outage.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet || (request.Body != nil && request.Body != http.NoBody) {
		return t.next.RoundTrip(request)
	}
	current := t.monitor.current()
	if current == nil {
		response, err := t.next.RoundTrip(request)
		failure := failureOf(request, response, err)
		if failure == nil || request.Context().Err() != nil {
			return response, err
		}
		if response != nil {
			drain(response)
		}
		current = t.monitor.begin(failure)
	}
	if err := t.wait(request.Context(), current); err != nil {
		return nil, err
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the transport that it made.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// failureOf returns why an answer may mean that the API server is unavailable, nil if it does not.
func failureOf(request *http.Request, response *http.Response, err error) error {
	switch {
	case err != nil:
		return err
	case response.StatusCode >= http.StatusInternalServerError:
		return &statusError{path: request.URL.Path, status: response.Status, code: response.StatusCode}
	}
	return nil
}

// statusError is an answer that the API server is not ready.
type statusError struct {
	path, status string
	code         int
}

func (e *statusError) Error() string { return fmt.Sprintf("GET %s: %s", e.path, e.status) }

// drainLimit is how much of an answer that nobody needs is read, in bytes, so that its connection can be used again.
const drainLimit = 64 << 10

// drain ends an answer that nobody needs.
func drain(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, drainLimit)
	_ = response.Body.Close()
}
