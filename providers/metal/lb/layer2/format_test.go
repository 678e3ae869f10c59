package layer2

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
)

var (
	macA = mac{2, 0, 0, 0, 0, 0xa}
	macB = mac{2, 0, 0, 0, 0, 0xb}
	macC = mac{2, 0, 0, 0, 0, 0xc}
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// captured are packets as Linux sends them.
const (
	capturedARP = `0001 0800 06 04 0001 0200 0000 000a 0a630064 0000 0000 0000 0a6300c8`
	// A solicitation of fe80::1 for fd99::c8 with its link-layer address.
	capturedNDP = `60000000 0020 3a ff fe800000 00000000 00000000 00000001 ff020000 00000000 00000001 ff0000c8
		87 00 0000 00000000 fd990000 00000000 00000000 000000c8 01 01 020000 00000a`
)

// withChecksum fills in the checksum of an ICMPv6 packet.
func withChecksum(data []byte) []byte {
	data[42], data[43] = 0, 0
	sum := checksum(data[8:40], data[40:])
	data[42], data[43] = byte(sum>>8), byte(sum)
	return data
}

func TestARPFormat(t *testing.T) {
	data := unhex(t, capturedARP)
	packet, err := parseARP(append(data, make([]byte, 18)...)) // padded to the shortest frame
	want := arp{operation: arpRequest, senderMAC: macA, sender: addr("10.99.0.100"), target: addr("10.99.0.200")}
	if err != nil || packet != want {
		t.Errorf("%+v, %v; want %+v", packet, err, want)
	}
	if !bytes.Equal(packet.bytes(), data) {
		t.Errorf("encoded: %x", packet.bytes())
	}
}

func TestNDPFormat(t *testing.T) {
	data := withChecksum(unhex(t, capturedNDP))
	message, err := parseNDP(data)
	want := ndp{kind: solicitation, source: netip.MustParseAddr("fe80::1"), destination: netip.MustParseAddr("ff02::1:ff00:c8"),
		target: netip.MustParseAddr("fd99::c8"), link: macA}
	if err != nil || message != want {
		t.Errorf("%+v, %v; want %+v", message, err, want)
	}
	if !bytes.Equal(message.bytes(), data) {
		t.Errorf("encoded: %x", message.bytes())
	}
	if got := solicitedNode(message.target); got != message.destination || multicastMAC(got) != (mac{0x33, 0x33, 0xff, 0, 0, 0xc8}) {
		t.Errorf("solicitations for %s go to %s, %s", message.target, got, multicastMAC(got))
	}
}

// TestNDPRefuses is RFC 4861 section 7.1: what a receiver must silently discard.
func TestNDPRefuses(t *testing.T) {
	for name, spoil := range map[string]func(data []byte) []byte{
		"a packet that a router passed on": func(data []byte) []byte { data[7] = 254; return data },
		"a wrong checksum":                 func(data []byte) []byte { data[43]++; return data },
		"another code":                     func(data []byte) []byte { data[41] = 1; return withChecksum(data) },
		"a multicast target":               func(data []byte) []byte { data[48] = 0xff; return withChecksum(data) },
		"an option without a length":       func(data []byte) []byte { data[65] = 0; return withChecksum(data) },
		"an option that is cut":            func(data []byte) []byte { data[65] = 2; return withChecksum(data) },
		"a packet that is cut":             func(data []byte) []byte { return data[:70] },
		"something else of ICMPv6":         func(data []byte) []byte { data[40] = 128; return withChecksum(data) },
		"another protocol":                 func(data []byte) []byte { data[6] = 17; return data },
		"an asker without address that has a link-layer address": func(data []byte) []byte {
			clear(data[8:24])
			return withChecksum(data)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if message, err := parseNDP(spoil(withChecksum(unhex(t, capturedNDP)))); err == nil {
				t.Errorf("taken: %+v", message)
			}
		})
	}
}

// TestNDPIgnoresOtherOptions is RFC 4861 sections 4.6 and 7.1.1: a receiver skips options that it does not know or that do not belong to
// solicitations, whatever is in them. See ADR 95.
func TestNDPIgnoresOtherOptions(t *testing.T) {
	captured := unhex(t, capturedNDP)
	for name, option := range map[string][2]byte{ // its type and its length in 8 bytes
		"a prefix that is cut": {3, 1}, "a server of names that is cut": {25, 1}, "an unknown one of 256 bytes": {253, 32},
		"a link-layer address of another length": {optionSource, 3},
	} {
		t.Run(name, func(t *testing.T) {
			data := append(bytes.Clone(captured), make([]byte, int(option[1])*8)...)
			data[len(captured)], data[len(captured)+1] = option[0], option[1]
			binary.BigEndian.PutUint16(data[4:], uint16(len(data)-ipv6Length))
			if message, err := parseNDP(withChecksum(data)); err != nil || message.link != macA {
				t.Errorf("%+v, %v; want the address of the option before it, %s", message, err, macA)
			}
		})
	}
}

func FuzzARP(f *testing.F) {
	f.Add(unhex(f, capturedARP))
	f.Fuzz(func(t *testing.T, data []byte) {
		packet, err := parseARP(data)
		if err == nil && !bytes.Equal(packet.bytes(), data[:arpLength]) {
			t.Errorf("%x becomes %x", data[:arpLength], packet.bytes())
		}
	})
}

func FuzzNDP(f *testing.F) {
	f.Add(withChecksum(unhex(f, capturedNDP)))
	f.Add(ndp{kind: advertisement, source: netip.MustParseAddr("fe80::2"), destination: allNodes, flags: flagOverride,
		target: netip.MustParseAddr("fd99::c8"), link: macB}.bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		message, err := parseNDP(data)
		if err != nil {
			// The checksum keeps the fuzzer out; behind it nothing may panic either.
			if len(data) >= ipv6Length+ndpLength {
				_, _ = parseNDP(withChecksum(bytes.Clone(data)))
			}
			return
		}
		again, err := parseNDP(message.bytes())
		if err != nil || again != message {
			t.Errorf("%+v becomes %+v, %v", message, again, err)
		}
	})
}
