package bgp

import (
	"encoding/binary"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// deriveRouterID returns a BGP identifier that stays the same as long as this machine's addresses do, and that no other machine
// has: the IPv4 address from which the first router is reached that can be; else an IPv4 address of the machine; else four
// bytes from a hash of the IPv6 address from which it is reached (RFC 6286 wants no more than that they differ within an
// autonomous system). It is not valid if there is nothing of this.
func deriveRouterID(peers []netip.Addr) netip.Addr {
	var sources []netip.Addr
	for _, peer := range peers {
		if source := sourceFor(peer); source.IsValid() {
			sources = append(sources, source)
		}
	}
	own, _ := self.Addresses() // without any, four bytes from a hash are left
	own = slices.DeleteFunc(own, func(addr netip.Addr) bool { return !addr.IsGlobalUnicast() })
	for _, source := range slices.Concat(sources, own) {
		if source.Is4() {
			return source
		}
	}
	if len(sources) == 0 {
		return netip.Addr{}
	}
	hash := fnv.New32a()
	hash.Write(sources[0].AsSlice())
	var id [4]byte
	binary.BigEndian.PutUint32(id[:], max(hash.Sum32(), 1))
	return netip.AddrFrom4(id)
}

// sourceFor returns the address that the kernel would send from. Connecting a datagram socket sends nothing.
func sourceFor(peer netip.Addr) netip.Addr {
	conn, err := net.Dial("udp", net.JoinHostPort(peer.String(), strconv.Itoa(int(discardPort))))
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return local.Addr().Unmap()
}

// discardPort is a port that nothing is sent to.
const discardPort = 9
