package environment

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// relay passes bytes between the managers and the API server, and counts them. What it passes is encrypted: it sees how much is said, and not
// what. It costs the process of the benchmark some processor time, and the managers a copy of each byte.
type relay struct {
	listener net.Listener
	target   string
	// received and sent are the bytes so far, as the managers see it.
	received, sent atomic.Int64
	passing        sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

// startRelay starts a relay to an address, "host:port".
func startRelay(target string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for connections to the API server: %w", err)
	}
	r := &relay{listener: listener, target: target, open: map[net.Conn]bool{}}
	r.passing.Go(r.accept)
	return r, nil
}

// address is where the managers reach the API server.
func (r *relay) address() string { return r.listener.Addr().String() }

// traffic is what the managers have received from the API server and sent to it, in bytes.
type traffic struct{ received, sent int64 }

// traffic returns what was passed so far: nothing without a relay.
func (r *relay) traffic() traffic {
	if r == nil {
		return traffic{}
	}
	return traffic{received: r.received.Load(), sent: r.sent.Load()}
}

func (r *relay) accept() {
	for {
		manager, err := r.listener.Accept()
		if err != nil {
			return // it is closed
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = manager.Close() // the manager tries again
			continue
		}
		if !r.keep(manager, server) {
			return
		}
		r.passing.Go(func() { r.pass(server, manager, &r.received) })
		r.passing.Go(func() { r.pass(manager, server, &r.sent) })
	}
}

// keep notes connections that close has to end. It ends them itself if the relay is closed.
func (r *relay) keep(connections ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, connection := range connections {
		if r.closed {
			_ = connection.Close()
		} else {
			r.open[connection] = true
		}
	}
	return !r.closed
}

// pass copies what one side says to the other, until one of them ends the connection: then both ends are closed.
func (r *relay) pass(from, to net.Conn, count *atomic.Int64) {
	defer r.end(from)
	defer r.end(to)
	_, _ = io.Copy(counted{to, count}, reading{from}) // whoever sees the connection end reacts as to a server that is gone
}

func (r *relay) end(connection net.Conn) {
	_ = connection.Close() // the other direction may have done so
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, connection)
}

// close ends all connections, and returns when nothing is left of them.
func (r *relay) close() error {
	err := r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for connection := range r.open {
		_ = connection.Close() // it may be ending by itself
	}
	r.mu.Unlock()
	r.passing.Wait()
	return err
}

// counted counts what is written while it is written: a connection lives as long as the manager.
type counted struct {
	io.Writer
	count *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.count.Add(int64(n))
	return n, err
}

// reading hides that a connection could write itself to another one, past the count.
type reading struct{ io.Reader }
