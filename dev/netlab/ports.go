package netlab

import (
	"net"
	"sync/atomic"
)

// Clients' own ports are these.
const (
	firstPort = 2048
	lastPort  = 65535
)

// Ports gives each connection of a client a port of its own, one after the other, the least recent one again when all were used. The kernel
// comes back to one after a thousand connections to an address, and connection tracking on the way keeps what it decided about a
// connection that was never answered for two minutes: a pod that has died since, say. Several clients of a host may have the same port for
// different destinations.
type Ports struct {
	used atomic.Uint32
}

// Dialer returns what makes the next connection, and no other one.
func (p *Ports) Dialer() *net.Dialer {
	next := p.used.Add(1) - 1
	return &net.Dialer{LocalAddr: &net.TCPAddr{Port: firstPort + int(next%(lastPort-firstPort+1))}, Control: share}
}
