// Package relay passes connections on to an API server, counts what it passes, and holds it back on demand.
package relay

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Relay passes bytes between clients and a server, and counts them. What it passes is encrypted: it sees how much is said, and not what. It
// costs this process some processor time, and the clients a copy of each byte.
type Relay struct {
	listener net.Listener
	target   string
	// received and sent are the bytes so far, as the clients see it.
	received, sent atomic.Int64
	passing        sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
	flows  chan struct{} // closed while bytes pass
}

// Start starts a relay to an address, "host:port". It has to be closed.
func Start(target string) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for connections to the API server: %w", err)
	}
	r := &Relay{listener: listener, target: target, open: map[net.Conn]bool{}, flows: make(chan struct{})}
	close(r.flows)
	r.passing.Go(r.accept)
	return r, nil
}

// Address is where clients reach the server.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Traffic is what the clients have received from the server and sent to it, in bytes.
type Traffic struct{ Received, Sent int64 }

// Traffic returns what was passed so far: nothing without a relay.
func (r *Relay) Traffic() Traffic {
	if r == nil {
		return Traffic{}
	}
	return Traffic{Received: r.received.Load(), Sent: r.sent.Load()}
}

// Pause lets nothing pass until Resume. Connections stay open, and are taken.
func (r *Relay) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.flows:
		r.flows = make(chan struct{})
	default: // it is paused
	}
}

// Resume lets everything pass that was held back.
func (r *Relay) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.flows:
	default:
		close(r.flows)
	}
}

// awaitFlow returns when bytes may pass.
func (r *Relay) awaitFlow() {
	r.mu.Lock()
	flows := r.flows
	r.mu.Unlock()
	<-flows
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // it is closed
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = client.Close() // which tries again
			continue
		}
		if !r.keep(client, server) {
			return
		}
		r.passing.Go(func() { r.pass(server, client, &r.received) })
		r.passing.Go(func() { r.pass(client, server, &r.sent) })
	}
}

// keep notes connections that Close has to end. It ends them itself if the relay is closed.
func (r *Relay) keep(connections ...net.Conn) bool {
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
func (r *Relay) pass(from, to net.Conn, count *atomic.Int64) {
	defer r.end(from)
	defer r.end(to)
	_, _ = io.Copy(counted{to, r, count}, reading{from}) // to each side, the end of the connection looks like a server that has gone away
}

func (r *Relay) end(connection net.Conn) {
	_ = connection.Close() // the other direction may have done so
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, connection)
}

// Close ends all connections, and returns when nothing is left of them.
func (r *Relay) Close() error {
	r.Resume()
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

// counted counts what is written while it is written, when it may be: a connection lives as long as its client.
type counted struct {
	io.Writer
	relay *Relay
	count *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.relay.awaitFlow()
	n, err := c.Writer.Write(p)
	c.count.Add(int64(n))
	return n, err
}

// reading hides that a connection could write itself to another one, past the count.
type reading struct{ io.Reader }
