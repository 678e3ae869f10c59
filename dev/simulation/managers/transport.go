package managers

import (
	"context"
	"io"
	"net/http"
)

// transport is the network of one process: it fails from the end of the process on, and so do the bodies that are open then.
type transport struct {
	process *Incarnation
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	stop := context.AfterFunc(t.process.ended, func() { cancel(errEnded) })
	done := func() {
		stop()
		cancel(nil)
	}
	if t.process.over() {
		done()
		closeBody(request)
		return nil, errEnded
	}
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil || t.process.over() {
		done()
		if err == nil {
			_ = response.Body.Close()
			err = errEnded
		}
		return nil, err
	}
	response.Body = body{ReadCloser: response.Body, process: t.process, done: done}
	return response, nil
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}

// body is the body of an answer, which breaks at the end of the process.
type body struct {
	io.ReadCloser
	process *Incarnation
	done    func()
}

// Read implements io.Reader.
func (b body) Read(into []byte) (int, error) {
	read, err := b.ReadCloser.Read(into)
	if b.process.over() {
		return 0, errEnded
	}
	return read, err
}

// Close implements io.Closer.
func (b body) Close() error {
	b.done()
	return b.ReadCloser.Close()
}
