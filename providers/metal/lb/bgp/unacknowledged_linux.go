package bgp

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// unacknowledged returns how many bytes the kernel has taken for each remote address and not seen confirmed, of TCP connections from
// or to one of the ports. Where it cannot be asked, nothing is known, and nothing is returned.
func unacknowledged(ports map[uint16]bool) map[netip.Addr]uint32 {
	waiting := map[netip.Addr]uint32{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := netlink.SocketDiagTCP(family)
		if err != nil {
			continue
		}
		for _, socket := range sockets {
			remote, ok := netip.AddrFromSlice(socket.ID.Destination)
			concerned := ports[socket.ID.SourcePort] || ports[socket.ID.DestinationPort]
			if ok && concerned && socket.State == netlink.TCP_ESTABLISHED {
				waiting[remote.Unmap()] += socket.WQueue
			}
		}
	}
	return waiting
}
