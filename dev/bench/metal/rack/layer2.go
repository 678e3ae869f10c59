package rack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/program"
)

// onSegment is where load balancers get their addresses from that are answered for on the segment: a part of the machines' network.
var onSegment = netip.MustParsePrefix("10.78.200.0/24")

// Failover takes the machine off the network that answers for the first Service, and returns the time until the router's kernel knows another one.
// The machine is back when it returns.
func (r *Run) Failover(ctx context.Context) (took time.Duration, err error) {
	addr, err := r.address(ctx)
	if err != nil {
		return 0, err
	}
	before, err := r.answering(ctx, addr, nil)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := r.rack.segment.Cut(ctx, before.host); err != nil {
		return 0, err
	}
	if _, err = r.answering(ctx, addr, before); err != nil {
		return 0, err
	}
	took = time.Since(began)
	return took, r.rack.segment.Join(ctx, before.host)
}

// address waits for the address of the first Service.
func (r *Run) address(ctx context.Context) (addr netip.Addr, err error) {
	given := func(ctx context.Context) error {
		service, err := r.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, serviceName(0), metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			addr, err = netip.ParseAddr(ingress.IP)
			return err
		}
		return fmt.Errorf("the Service %s has no address", service.Name)
	}
	err = program.Await(ctx, "the first Service has an address", r.programs(), given)
	return addr, err
}

// answering returns the machine to which the router's kernel sends what is for an address, once that is another one than before. It sends something
// at each look, as clients do: the kernel asks for no entry anew that is not used.
func (r *Run) answering(ctx context.Context, addr netip.Addr, before *machine) (is *machine, err error) {
	connection, err := r.rack.router.Dial(ctx, &net.Dialer{}, "udp", netip.AddrPortFrom(addr, 9).String())
	if err != nil {
		return nil, fmt.Errorf("send to %s: %w", addr, err)
	}
	defer func() { _ = connection.Close() }()
	var unread error
	err = r.rack.follow(ctx, r.programs(), func(Table, time.Time) bool {
		_, _ = connection.Write([]byte{0}) // until the address is resolved it fails
		is, unread = r.rack.neighbor(addr)
		return unread != nil || is != nil && is != before
	})
	return is, errors.Join(err, unread)
}

// neighbor returns the machine that the router's kernel has for an address, or nil.
func (r *Rack) neighbor(addr netip.Addr) (*machine, error) {
	known, err := r.kernel.NeighList(0, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("read the neighbors of the router: %w", err)
	}
	for _, entry := range known {
		if of, ok := netip.AddrFromSlice(entry.IP.To4()); !ok || of != addr {
			continue
		}
		for _, m := range r.machines {
			if entry.HardwareAddr.String() == m.mac {
				return m, nil
			}
		}
	}
	return nil, nil
}

// readMAC reads the address of a machine on the segment.
func (m *machine) readMAC() error {
	return m.host.Do(func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return fmt.Errorf("read the hardware address of %s: %w", m.name, err)
		}
		m.mac = link.HardwareAddr.String()
		return nil
	})
}
