package layer2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// mac is an Ethernet address.
type mac [6]byte

// broadcast is every host of the segment.
var broadcast = mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

func (m mac) isUnicast() bool { return m != mac{} && m[0]&1 == 0 }

// String returns the address as in the output of ip.
func (m mac) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// The operations of ARP (RFC 826).
const (
	arpRequest = 1
	arpReply   = 2
)

// arpLength is the length of a packet for IPv4 over Ethernet. What follows is padding.
const arpLength = 28

// arpHead is what packets for IPv4 over Ethernet begin with: hardware and protocol type, and the lengths of their addresses.
var arpHead = [6]byte{0, 1, 0x08, 0x00, 6, 4}

var errMalformed = errors.New("malformed")

// arp is an ARP packet for IPv4 over Ethernet.
type arp struct {
	operation            uint16
	senderMAC, targetMAC mac
	sender, target       netip.Addr
}

// parseARP decodes a packet. The error is errMalformed.
func parseARP(data []byte) (arp, error) {
	if len(data) < arpLength || [6]byte(data[:6]) != arpHead {
		return arp{}, errMalformed
	}
	return arp{
		operation: binary.BigEndian.Uint16(data[6:]),
		senderMAC: mac(data[8:14]), sender: netip.AddrFrom4([4]byte(data[14:18])),
		targetMAC: mac(data[18:24]), target: netip.AddrFrom4([4]byte(data[24:28])),
	}, nil
}

// bytes encodes the packet. Its addresses are IPv4.
func (a arp) bytes() []byte {
	data := append(make([]byte, 0, arpLength), arpHead[:]...)
	data = binary.BigEndian.AppendUint16(data, a.operation)
	sender, target := a.sender.As4(), a.target.As4()
	data = append(append(data, a.senderMAC[:]...), sender[:]...)
	return append(append(data, a.targetMAC[:]...), target[:]...)
}
