package layer2

import (
	"encoding/binary"
	"net/netip"
)

// The types of neighbor discovery (RFC 4861 section 4).
const (
	solicitation  = 135
	advertisement = 136
)

const (
	ipv6Length   = 40
	ndpLength    = 24 // type, code, checksum, flags, target
	nextICMPv6   = 58
	hopLimit     = 255 // what a router has passed on has less (RFC 4861 section 3.1)
	optionSource = 1   // link-layer address of the sender of a solicitation
	optionTarget = 2   // and of the target of an advertisement
	optionLength = 8   // of either, for Ethernet

	flagSolicited = 0x40
	flagOverride  = 0x20
)

// allNodes is every host of the segment.
var allNodes = netip.MustParseAddr("ff02::1")

// ndp is a neighbor solicitation or advertisement with its IPv6 header.
type ndp struct {
	kind                byte // solicitation or advertisement
	source, destination netip.Addr
	// flags are those of an advertisement.
	flags  byte
	target netip.Addr
	// link is the link-layer address in the options: of the source of a solicitation, or of the target of an advertisement. It is
	// zero if there is no such option.
	link mac
}

// parseNDP decodes a packet from its IPv6 header on, and checks what RFC 4861 section 7.1 has a receiver check. The error is
// errMalformed.
func parseNDP(data []byte) (ndp, error) {
	if len(data) < ipv6Length+ndpLength || data[0]>>4 != 6 || data[6] != nextICMPv6 || data[7] != hopLimit {
		return ndp{}, errMalformed
	}
	length := int(binary.BigEndian.Uint16(data[4:]))
	if length < ndpLength || len(data) < ipv6Length+length {
		return ndp{}, errMalformed
	}
	body := data[ipv6Length : ipv6Length+length]
	message := ndp{
		kind: body[0], flags: body[4],
		source: netip.AddrFrom16([16]byte(data[8:24])), destination: netip.AddrFrom16([16]byte(data[24:40])),
		target: netip.AddrFrom16([16]byte(body[8:24])),
	}
	if message.kind != solicitation && message.kind != advertisement || body[1] != 0 || message.target.IsMulticast() ||
		checksum(data[8:40], body) != 0 {
		return ndp{}, errMalformed
	}
	if message.kind == advertisement && message.destination.IsMulticast() && message.flags&flagSolicited != 0 {
		return ndp{}, errMalformed
	}
	if !message.readOptions(body[ndpLength:]) {
		return ndp{}, errMalformed
	}
	if message.kind == solicitation && message.source.IsUnspecified() && message.link != (mac{}) {
		return ndp{}, errMalformed
	}
	return message, nil
}

// readOptions takes the link-layer address from the options, skips unknown ones, and reports whether they are well-formed.
func (n *ndp) readOptions(options []byte) bool {
	wanted := byte(optionSource)
	if n.kind == advertisement {
		wanted = optionTarget
	}
	for len(options) > 0 {
		if len(options) < 2 || options[1] == 0 || len(options) < int(options[1])*8 {
			return false
		}
		if length := int(options[1]) * 8; options[0] == wanted && length == optionLength {
			n.link = mac(options[2:8])
		}
		options = options[int(options[1])*8:]
	}
	return true
}

// bytes encodes the packet with its IPv6 header.
func (n ndp) bytes() []byte {
	length := ndpLength
	if n.link != (mac{}) {
		length += optionLength
	}
	data := make([]byte, ipv6Length+length)
	data[0] = 6 << 4
	binary.BigEndian.PutUint16(data[4:], uint16(length))
	data[6], data[7] = nextICMPv6, hopLimit
	source, destination, target := n.source.As16(), n.destination.As16(), n.target.As16()
	copy(data[8:], source[:])
	copy(data[24:], destination[:])
	body := data[ipv6Length:]
	body[0], body[4] = n.kind, n.flags
	copy(body[8:], target[:])
	if n.link != (mac{}) {
		body[ndpLength], body[ndpLength+1] = optionSource, optionLength/8
		if n.kind == advertisement {
			body[ndpLength] = optionTarget
		}
		copy(body[ndpLength+2:], n.link[:])
	}
	binary.BigEndian.PutUint16(body[2:], checksum(data[8:40], body))
	return data
}

// checksum is the checksum of ICMPv6 (RFC 4443 section 2.3) over the addresses and the message. Over a message with its checksum it is 0.
func checksum(addresses, body []byte) uint16 {
	sum := uint32(len(body)) + nextICMPv6
	for _, part := range [][]byte{addresses, body} {
		for ; len(part) >= 2; part = part[2:] {
			sum += uint32(binary.BigEndian.Uint16(part))
		}
		if len(part) == 1 {
			sum += uint32(part[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// solicitedNode returns the multicast address that solicitations for an address are sent to (RFC 4291 section 2.7.1).
func solicitedNode(addr netip.Addr) netip.Addr {
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	of := addr.As16()
	copy(group[13:], of[13:])
	return netip.AddrFrom16(group)
}

// multicastMAC returns the Ethernet address of an IPv6 multicast address (RFC 2464 section 7).
func multicastMAC(group netip.Addr) mac {
	of := group.As16()
	return mac{0x33, 0x33, of[12], of[13], of[14], of[15]}
}
