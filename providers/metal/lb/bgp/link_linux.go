package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// lookAtLink returns what the kernel knows of an interface. It notes who is a router by router advertisements, also where it does not follow
// them (net/ipv6/ndisc.c).
func lookAtLink(name string) (Link, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return Link{}, fmt.Errorf("the interface %s: %w", name, err)
	}
	link := Link{}
	addresses, err := device.Addrs()
	if err != nil {
		return link, fmt.Errorf("the addresses of %s: %w", name, err)
	}
	var own []netip.Addr
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast() {
			own = append(own, prefix.Addr().WithZone(name))
		}
	}
	if len(own) == 0 {
		return link, fmt.Errorf("%s has no IPv6 link-local address", name)
	}
	link.Own = own[0]
	neighbors, err := netlink.NeighList(device.Index, netlink.FAMILY_V6)
	if err != nil {
		return link, fmt.Errorf("the neighbors on %s: %w", name, err)
	}
	for _, neighbor := range neighbors {
		addr, ok := netip.AddrFromSlice(neighbor.IP)
		silent := neighbor.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) != 0
		if ok && addr.IsLinkLocalUnicast() && neighbor.Flags&netlink.NTF_ROUTER != 0 && !silent && !slices.Contains(own, addr.WithZone(name)) {
			link.Routers = append(link.Routers, addr.WithZone(name))
		}
	}
	slices.SortFunc(link.Routers, netip.Addr.Compare)
	return link, nil
}

// The messages of RFC 4861 section 4, without their options. The kernel writes their checksums.
var (
	routerSolicitation  = []byte{133, 0, 0, 0, 0, 0, 0, 0}
	routerAdvertisement = []byte{134, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	allRouters          = net.ParseIP("ff02::2")
	allNodes            = net.ParseIP("ff02::1")
)

// greetOn asks for the routers on an interface, and makes this machine known there as a router that forwards for no host.
func greetOn(name string) (err error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("the interface %s: %w", name, err)
	}
	link, err := lookAtLink(name)
	if err != nil {
		return err
	}
	socket, err := (&net.ListenConfig{}).ListenPacket(context.Background(), "ip6:ipv6-icmp", link.Own.String())
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("asking for the router on %s needs the capability NET_RAW: %w", name, err)
	}
	if err != nil {
		return fmt.Errorf("asking for the router on %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, socket.Close()) }()
	conn, filter := ipv6.NewPacketConn(socket), ipv6.ICMPFilter{}
	filter.SetAll(true)
	if err := errors.Join(conn.SetICMPFilter(&filter), conn.SetMulticastHopLimit(255), conn.SetMulticastLoopback(false),
		conn.SetMulticastInterface(device)); err != nil {
		return fmt.Errorf("asking for the router on %s: %w", name, err)
	}
	var option []byte
	if len(device.HardwareAddr) == 6 {
		option = append([]byte{1, 1}, device.HardwareAddr...) // where it is sent from
	}
	_, asked := conn.WriteTo(slices.Concat(routerSolicitation, option), nil, &net.IPAddr{IP: allRouters, Zone: name})
	_, told := conn.WriteTo(slices.Concat(routerAdvertisement, option), nil, &net.IPAddr{IP: allNodes, Zone: name})
	if err := errors.Join(asked, told); err != nil {
		return fmt.Errorf("asking for the router on %s: %w", name, err)
	}
	return nil
}
