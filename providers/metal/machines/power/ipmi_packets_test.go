package power

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/mooring-ccm/mooring/dev/bmc/ipmitest"
	"github.com/mooring-ccm/mooring/internal/message"
)

// encrypted returns a packet of a session that says that its payload is encrypted (IPMI 2.0, 13.6). The session is made up.
func encrypted(payload []byte) []byte {
	packet := []byte{0x06, 0x00, 0xff, 0x07, 0x06, 0x80, 1, 2, 3, 4, 1, 0, 0, 0, byte(len(payload)), byte(len(payload) >> 8)}
	return append(packet, payload...)
}

// injected are packets that anybody can send from a controller's address.
var injected = [][]byte{
	encrypted(nil), encrypted(make([]byte, 8)), encrypted(make([]byte, 16)), encrypted(make([]byte, 32)), encrypted([]byte(strings.Repeat("x", 48))),
	{}, {6}, []byte("garbage"), {0x06, 0x00, 0xff, 0x06, 0, 0, 0, 0, 0x40, 0, 0, 9}, make([]byte, 1400),
}

// relay passes packets on between one client and a controller. Before each answer from the second on it sends others: the library takes
// the first packet that comes while a session begins for the answer, whatever it is.
func relay(t *testing.T, controller string, before func(answer []byte) [][]byte) string {
	t.Helper()
	front, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.Dial("udp", controller)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var from netip.AddrPort
	var both sync.WaitGroup
	both.Go(func() {
		buffer := make([]byte, 4096)
		for {
			read, sender, err := front.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			mu.Lock()
			from = sender
			mu.Unlock()
			_, _ = back.Write(buffer[:read])
		}
	})
	both.Go(func() {
		buffer := make([]byte, 4096)
		for {
			read, err := back.Read(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			mu.Lock()
			to := from
			mu.Unlock()
			for _, packet := range before(buffer[:read]) {
				_, _ = front.WriteToUDPAddrPort(packet, to)
			}
			_, _ = front.WriteToUDPAddrPort(buffer[:read], to)
		}
	})
	t.Cleanup(func() {
		_ = errors.Join(front.Close(), back.Close())
		both.Wait()
	})
	return front.LocalAddr().String()
}

// Packets that anybody sends from a controller's address neither end the process nor change what the controller says.
func TestIPMIDropsPacketsThatCannotBeParsed(t *testing.T) {
	bmc := ipmitest.Start(t, "127.0.0.1", ipmiSecret)
	machine := ipmiMachine(t, bmc, ipmitest.Monitor)
	machine.BMC.IPMI.Address = relay(t, bmc.Address, func(answer []byte) [][]byte {
		if len(answer) > 5 && answer[4] == byte(types.AuthTypeRMCPPlus) && answer[5]&0x80 != 0 { // the session is open
			return injected
		}
		return nil
	})
	reader := open(t, machine)
	for range 5 {
		expect(t, reader, "on")
	}
}

// canned is a socket of a controller that answers every request by the same packet, and then ends.
type canned struct {
	net.Conn
	packet []byte
	left   int
}

func (c *canned) Read(buffer []byte) (int, error) {
	if c.left--; c.left < 0 {
		return 0, io.EOF
	}
	return copy(buffer, c.packet), nil
}
func (c *canned) Write(data []byte) (int, error)  { return len(data), nil }
func (c *canned) Close() error                    { return nil }
func (c *canned) SetReadDeadline(time.Time) error { return nil }

type cannedDialer struct {
	packet  []byte
	session *client.Client
}

func (d cannedDialer) Dial(string, string) (net.Conn, error) {
	return &packets{Conn: &canned{packet: d.packet, left: 20}, session: d.session}, nil
}

// FuzzIPMIPacket has a controller answer everything by one packet.
func FuzzIPMIPacket(f *testing.F) {
	for _, packet := range injected {
		f.Add(packet)
	}
	// What a controller says of the ways to authenticate (IPMI 2.0, 22.13), which opens a session.
	f.Add([]byte{6, 0, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0x81, 0x1c, 0x63, 0x20, 4, 0x38, 0, 1, 0x80, 4, 3, 0, 0, 0, 0, 0x3c})
	// Answers that open a session (13.18) and refuse it (13.21), and one with a completion code.
	f.Add(append([]byte{6, 0, 0xff, 7, 6, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 36, 0}, make([]byte, 36)...))
	f.Add([]byte{6, 0, 0xff, 7, 6, 0x13, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 2, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{6, 0, 0xff, 7, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0x81, 0x1c, 0x63, 0x20, 4, 0x37, 0xc1, 0})
	f.Fuzz(func(t *testing.T, packet []byte) {
		session, err := client.NewClient("192.0.2.1", 623, "user", "password")
		if err != nil {
			t.Fatal(err)
		}
		session.WithCipherSuiteID(defaultCipherSuites...).WithUDPProxy(cannedDialer{packet, session})
		asked := &ipmi{}
		err = guarded(asked, "connecting", func() error {
			if err := session.Connect(t.Context()); err != nil {
				return asked.failed(t.Context(), "connecting", err)
			}
			return nil
		})
		if err == nil {
			t.Fatalf("a session with a controller that only says %x", packet)
		}
		if text := err.Error(); len(text) > 1000 || text != message.Line(text, len(text)) {
			t.Errorf("%d bytes: %q", len(text), text)
		}
		var guid types.Response = &client.CommandRawResponse{}
		_ = guid.Unpack(packet)
	})
}

// FuzzSystemGUID gives UUIDs as texts and GUIDs as bytes: what is known stays what it is however it is written.
func FuzzSystemGUID(f *testing.F) {
	f.Add([]byte("4c4c4544-0051-3510-8052-b4c04f4e3532"))
	f.Add([]byte("{4C4C4544-0051-3510-8052-B4C04F4E3532}"))
	f.Add([]byte("urn:uuid:4c4c4544-0051-3510-8052-b4c04f4e3532"))
	f.Add([]byte("00000000-0000-0000-0000-000000000000"))
	f.Add([]byte("0123456789abcdef"))
	f.Add([]byte(strings.Repeat("\xff", 16)))
	f.Fuzz(func(t *testing.T, data []byte) {
		given := newSystemUUID(string(data))
		if given.Known() && (!given.Is(string(data)) || newSystemUUID(given.String()) != given) {
			t.Errorf("%q is %q", data, given)
		}
		var bytes [16]byte
		copy(bytes[:], data)
		if guid := newSystemGUID(bytes); guid.Known() && !guid.Is(guid.String()) {
			t.Errorf("%x is %q, which it is not", bytes, guid)
		}
	})
}
