package layer2

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/net/ipv6"
)

const (
	protocolARP  = 0x0806
	protocolIPv6 = 0x86dd
	// frameSize is more than any packet that is looked at; longer ones are cut, and are none of ours.
	frameSize = 2048
)

// wire is where frames of one interface come from and go to.
type wire struct {
	device *net.Interface
	arp    *packet.Conn
	// ndp and groups are nil on an interface without IPv6.
	ndp    *packet.Conn
	groups *groups
}

// open opens an interface. It needs CAP_NET_RAW.
func open(device *net.Interface, with6 bool) (*wire, error) {
	arp, err := packet.Listen(device, packet.Datagram, protocolARP, nil)
	if err != nil {
		return nil, fmt.Errorf("listening for ARP on %s: %w", device.Name, err)
	}
	opened := &wire{device: device, arp: arp}
	if !with6 {
		return opened, nil
	}
	filter, err := bpf.Assemble(neighborDiscovery)
	if err == nil {
		opened.ndp, err = packet.Listen(device, packet.Datagram, protocolIPv6, &packet.Config{Filter: filter})
	}
	if err == nil {
		opened.groups, err = newGroups(device)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening for neighbor solicitations on %s: %w", device.Name, err), opened.close())
	}
	return opened, nil
}

// neighborDiscovery lets through what parseNDP may accept, from the IPv6 header on.
var neighborDiscovery = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 6, Size: 2}, // next header and hop limit
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nextICMPv6<<8 | hopLimit, SkipTrue: 4},
	bpf.LoadAbsolute{Off: ipv6Length, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: solicitation, SkipTrue: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: advertisement, SkipTrue: 1},
	bpf.RetConstant{Val: frameSize},
	bpf.RetConstant{Val: 0},
}

// send sends one frame.
func (w *wire) send(out frame) error {
	conn := w.arp
	if out.is6 {
		conn = w.ndp
	}
	if conn == nil {
		return nil // nothing of IPv6 is assigned to an interface without it
	}
	_, err := conn.WriteTo(out.payload, &packet.Addr{HardwareAddr: out.to[:]})
	return err
}

// read hands each packet with its sender to a function, until the connection is closed or fails.
func read(conn *packet.Conn, receive func(data []byte, from mac)) error {
	buffer := make([]byte, frameSize)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if sender, ok := from.(*packet.Addr); ok && len(sender.HardwareAddr) == 6 {
			receive(buffer[:n], mac(sender.HardwareAddr))
		}
	}
}

// join has the solicitations for these addresses delivered to this machine, and those for no others.
func (w *wire) join(addrs []netip.Addr) error {
	if w.groups == nil {
		return nil
	}
	return w.groups.set(addrs)
}

func (w *wire) close() error {
	errs := []error{w.arp.Close()}
	if w.ndp != nil {
		errs = append(errs, w.ndp.Close())
	}
	if w.groups != nil {
		errs = append(errs, w.groups.conn.Close())
	}
	return errors.Join(errs...)
}

// groups are the multicast groups that were joined. The kernel then reports them (MLD, RFC 3810), so switches that look for
// that let solicitations through, and has the interface accept them.
type groups struct {
	device *net.Interface
	conn   net.PacketConn
	joined map[netip.Addr]bool
}

func newGroups(device *net.Interface) (*groups, error) {
	conn, err := net.ListenPacket("udp6", "[::1]:0") // only holds the memberships
	if err != nil {
		return nil, fmt.Errorf("socket for multicast groups: %w", err)
	}
	return &groups{device, conn, map[netip.Addr]bool{}}, nil
}

// set joins the groups of these addresses and leaves all others.
func (g *groups) set(addrs []netip.Addr) error {
	wanted := map[netip.Addr]bool{}
	for _, addr := range addrs {
		if addr.Is6() {
			wanted[solicitedNode(addr)] = true
		}
	}
	conn := ipv6.NewPacketConn(g.conn)
	var errs []error
	for group := range g.joined {
		if !wanted[group] {
			errs = append(errs, conn.LeaveGroup(g.device, &net.UDPAddr{IP: group.AsSlice()}))
			delete(g.joined, group)
		}
	}
	for group := range wanted {
		if g.joined[group] {
			continue
		}
		if err := conn.JoinGroup(g.device, &net.UDPAddr{IP: group.AsSlice()}); err != nil {
			errs = append(errs, fmt.Errorf("joining %s on %s: %w", group, g.device.Name, err))
			continue
		}
		g.joined[group] = true
	}
	return errors.Join(errs...)
}

// devices returns the interfaces that can be answered on, restricted to names if there are any.
func devices(names []string) ([]network, map[string]*net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, nil, fmt.Errorf("listing interfaces: %w", err)
	}
	var networks []network
	byName := map[string]*net.Interface{}
	for i := range all {
		device := &all[i]
		const needs = net.FlagUp | net.FlagBroadcast | net.FlagMulticast
		if device.Flags&needs != needs || len(device.HardwareAddr) != 6 || len(names) > 0 && !slices.Contains(names, device.Name) {
			continue
		}
		addrs, err := device.Addrs()
		if err != nil {
			continue // gone since
		}
		found := network{name: device.Name}
		for _, addr := range addrs {
			if prefix, err := netip.ParsePrefix(addr.String()); err == nil {
				found.addrs = append(found.addrs, prefix)
			}
		}
		networks, byName[device.Name] = append(networks, found), device
	}
	slices.SortFunc(networks, func(a, b network) int { return strings.Compare(a.name, b.name) })
	return networks, byName, nil
}
