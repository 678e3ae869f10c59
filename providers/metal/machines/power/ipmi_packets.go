package power

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/types"
)

// errPanicked says that the library gave an answer up in a way that ends a process.
var errPanicked = errors.New("the controller's answer is no valid IPMI")

// guarded calls the library and makes an error of a panic: it indexes what controllers send without looking how long it is.
func guarded(i *ipmi, what string, call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("IPMI of %s, %s: %w (%v)", i.config.Address, what, errPanicked, value)
		}
	}()
	return call()
}

// dialer opens the socket of a session, whose packets it looks at before the library does. The library decrypts packets on goroutines of
// its own, before it knows who sent them. It panics on packets that are too short or encrypted by another key, and no caller can recover
// there. Any host that can send a packet from a controller's address would end this process.
type dialer struct {
	ctx     context.Context // of the one reading that the socket is for
	session *client.Client
}

// Dial opens the socket. The library calls it once.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &packets{Conn: conn, session: d.session}, nil
}

// packets is a socket that shows the library only packets that it can parse.
type packets struct {
	net.Conn
	session *client.Client
}

// Read returns the next packet that can be parsed. The library has set the deadline.
func (p *packets) Read(buffer []byte) (int, error) {
	for {
		read, err := p.Conn.Read(buffer)
		if err != nil || parses(p.session, buffer[:read]) {
			return read, err
		}
	}
}

// parses reports whether the library can parse a packet in the state that a session is in, be it to find that it is an error.
func parses(session *client.Client, packet []byte) (can bool) {
	defer func() {
		if recover() != nil {
			can = false
		}
	}()
	// It copies nothing into the response but bytes, and changes nothing of a session with these cipher suites.
	_ = session.ParseRmcpResponse(context.Background(), packet, types.Command{}, &client.CommandRawResponse{})
	return true
}
