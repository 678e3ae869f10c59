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

	"k8s.io/client-go/rest"
)

// HTTPClient returns an HTTP client for clients whose requests are lists and watches of informers. A GET that gets no answer, or an answer
// that the server is at fault (5xx), is repeated until it is answered or its context ends. After 5 minutes, 30 seconds if the API server itself
// says that it fails, the failure is returned, so client-go counts and logs it. Other requests are sent as they are.
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
	if request.Method != http.MethodGet || (request.Body != nil && request.Body != http.NoBody) ||
		failureOf(request, response, err) == nil || request.Context().Err() != nil {
		return response, err
	}
	return t.repeat(request, response, err)
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

// statusError is an answer that the API server is not available.
type statusError struct {
	path, status string
	code         int
}

func (e *statusError) Error() string { return fmt.Sprintf("GET %s: %s", e.path, e.status) }

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
