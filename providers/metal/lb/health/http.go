package health

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"time"
)

const (
	// bodyLimit is how much of an answer is read so its connection can be used again. kube-proxy says some 200 bytes.
	bodyLimit = 4 << 10
	// readBuffer is less than bufio's default: there is one for each port.
	readBuffer = 1 << 10
)

// httpAsker asks one port over HTTP. It keeps its connection, so thousands of probes a second are as many packets and no
// handshakes, and needs no goroutine of its own, as a Transport would, two for each connection. A node that dies leaves the
// connection silent, which is what is to be noticed. It is for one goroutine.
type httpAsker struct {
	conn   net.Conn // nil if not connected
	reader *bufio.Reader
	at     netip.AddrPort // where conn leads
	hangUp func() bool    // ends the watch over the context by which conn is closed
}

func newHTTPAsker() asker { return &httpAsker{} }

// ask asks for /healthz. If kube-proxy does not answer 200, its /livez distinguishes a node that is being removed from one that
// does not work (KEP-3836).
func (a *httpAsker) ask(ctx context.Context, at netip.AddrPort, kubeProxy bool, timeout time.Duration) answer {
	deadline := time.Now().Add(timeout)
	status, err := a.get(ctx, at, "/healthz", deadline)
	switch {
	case err != nil:
		return unanswered(err)
	case status == http.StatusOK:
		return welcoming
	case !kubeProxy:
		return refusing
	}
	if status, err = a.get(ctx, at, "/livez", deadline); err == nil && status == http.StatusOK {
		return leaving
	}
	return refusing
}

// connect asks whether the port takes connections, and says nothing.
func (a *httpAsker) connect(ctx context.Context, at netip.AddrPort, timeout time.Duration) answer {
	if err := a.dial(ctx, at, time.Now().Add(timeout)); err != nil {
		return unanswered(err)
	}
	a.close()
	return welcoming
}

// unanswered says what an error means. The kernel of a machine that lives refuses connections to a port without a listener, and resets or
// ends the connections of a process that ends. All else may be the network.
func unanswered(err error) answer {
	for _, lives := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, lives) {
			return closed
		}
	}
	return silent
}

// get returns the status. A connection that was kept, and closed by the other side meanwhile, is replaced by a new one.
func (a *httpAsker) get(ctx context.Context, at netip.AddrPort, path string, deadline time.Time) (int, error) {
	if a.conn != nil && a.at == at {
		status, err := a.exchange(path, deadline)
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return status, err
		}
	}
	if err := a.dial(ctx, at, deadline); err != nil {
		return 0, err
	}
	return a.exchange(path, deadline)
}

// dial connects anew. The connection is closed when ctx ends.
func (a *httpAsker) dial(ctx context.Context, at netip.AddrPort, deadline time.Time) error {
	a.close()
	dialer := net.Dialer{Deadline: deadline, KeepAlive: -1} // the probes keep it alive
	conn, err := dialer.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return err
	}
	a.conn, a.reader, a.at = conn, bufio.NewReaderSize(conn, readBuffer), at
	a.hangUp = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return nil
}

// exchange asks over the connection that there is, and closes it unless it can be used again.
func (a *httpAsker) exchange(path string, deadline time.Time) (status int, err error) {
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err := a.conn.SetDeadline(deadline); err != nil {
		return 0, err
	}
	request := "GET " + path + " HTTP/1.1\r\nHost: " + a.at.String() + "\r\nUser-Agent: mooring\r\n\r\n"
	if _, err := io.WriteString(a.conn, request); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(a.reader, nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	read, err := io.Copy(io.Discard, io.LimitReader(response.Body, bodyLimit+1))
	if err != nil {
		return 0, err
	}
	if response.Close || read > bodyLimit {
		a.close()
	}
	return response.StatusCode, nil
}

func (a *httpAsker) close() {
	if a.conn != nil {
		a.hangUp()
		_ = a.conn.Close()
		a.conn = nil
	}
}
