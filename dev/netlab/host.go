package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
)

const bridge = "segment"

// Segment is an Ethernet segment: a bridge in the namespace of this process.
type Segment struct{}

// Host is a network namespace: a machine, as the network sees it.
type Host struct {
	// Name is the name of the namespace, of up to eleven characters.
	Name string
}

// Args are the words to put before a command so it runs in the host's network.
func (h *Host) Args() []string { return []string{"nsenter", "--net=" + h.namespace()} }

func (h *Host) namespace() string { return "/run/netns/" + h.Name }

// NewSegment makes the segment, on which this process has addresses.
func NewSegment(ctx context.Context, addrs ...netip.Prefix) (*Segment, error) {
	err := run(ctx, "ip", "link", "add", bridge, "type", "bridge")
	if err == nil {
		err = setUp(ctx, nil, bridge, addrs)
	}
	if err != nil {
		return nil, fmt.Errorf("make the segment: %w", err)
	}
	return &Segment{}, nil
}

// NewHost makes a host with addresses on the segment, and with gateways to everywhere else, of which there may be none.
func (s *Segment) NewHost(ctx context.Context, name string, addrs []netip.Prefix, gateways ...netip.Addr) (*Host, error) {
	host := &Host{Name: name}
	for _, args := range [][]string{
		{"ip", "netns", "add", name},
		{"ip", "link", "add", outer(name), "type", "veth", "peer", "name", "eth0", "netns", name},
		{"ip", "link", "set", outer(name), "master", bridge, "up"},
	} {
		if err := run(ctx, args...); err != nil {
			return nil, fmt.Errorf("make the host %s: %w", name, err)
		}
	}
	if err := host.connect(ctx, addrs, gateways); err != nil {
		return nil, fmt.Errorf("make the host %s: %w", name, err)
	}
	return host, nil
}

// outer is the name of the segment's end of a host's link.
func outer(host string) string { return "veth" + host }

// Cut takes a host off the segment.
func (s *Segment) Cut(ctx context.Context, h *Host) error {
	return run(ctx, "ip", "link", "set", outer(h.Name), "down")
}

// Join puts a host back on the segment after Cut.
func (s *Segment) Join(ctx context.Context, h *Host) error {
	return run(ctx, "ip", "link", "set", outer(h.Name), "up")
}

// Attach makes a host with a link of its own to this one, which is its way to everywhere: there are this one's addresses on the link,
// here the new one's.
func (h *Host) Attach(ctx context.Context, name string, there, here []netip.Prefix) (*Host, error) {
	host := &Host{Name: name}
	link := "to-" + name
	for _, args := range [][]string{
		{"ip", "netns", "add", name},
		{"ip", "link", "add", link, "netns", h.Name, "type", "veth", "peer", "name", "eth0", "netns", name},
	} {
		if err := run(ctx, args...); err != nil {
			return nil, fmt.Errorf("make the host %s: %w", name, err)
		}
	}
	var gateways []netip.Addr
	for _, addr := range there {
		gateways = append(gateways, addr.Addr())
	}
	if err := errors.Join(setUp(ctx, h.Args(), link, there), host.connect(ctx, here, gateways)); err != nil {
		return nil, fmt.Errorf("make the host %s: %w", name, err)
	}
	return host, nil
}

// connect sets up the interface of a host that was made.
func (h *Host) connect(ctx context.Context, addrs []netip.Prefix, gateways []netip.Addr) error {
	if err := run(ctx, append(h.Args(), "ip", "link", "set", "lo", "up")...); err != nil {
		return err
	}
	if err := setUp(ctx, h.Args(), "eth0", addrs); err != nil {
		return err
	}
	for _, gateway := range gateways {
		if err := run(ctx, append(h.Args(), "ip", family(gateway), "route", "replace", "default", "via", gateway.String())...); err != nil {
			return err
		}
	}
	return nil
}

// setUp gives a device its addresses and sets it up. Duplicate address detection would make those of IPv6 unusable for a second.
func setUp(ctx context.Context, inside []string, device string, addrs []netip.Prefix) error {
	command := func(args ...string) error { return run(ctx, append(append([]string{}, inside...), args...)...) }
	for _, addr := range addrs {
		args := []string{"ip", family(addr.Addr()), "address", "add", addr.String(), "dev", device}
		if addr.Addr().Is6() {
			args = append(args, "nodad")
		}
		if err := command(args...); err != nil {
			return err
		}
	}
	return command("ip", "link", "set", device, "up")
}

// Forward makes the host pass packets on, and spread them over equal routes by addresses and ports.
func (h *Host) Forward() error {
	return h.Do(func() error {
		for _, setting := range []string{
			"ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/fib_multipath_hash_policy", "ipv6/fib_multipath_hash_policy",
		} {
			if err := os.WriteFile("/proc/sys/net/"+setting, []byte("1"), 0); err != nil {
				return fmt.Errorf("make %s forward: %w", h.Name, err)
			}
		}
		return nil
	})
}

// Blackhole makes the host drop what it would pass on to these destinations: what is for a load balancer and was not translated. It would
// go back to where it came from, and leave an entry in the host's connection tracking that keeps others untranslated, too.
func (h *Host) Blackhole(ctx context.Context, destinations ...netip.Prefix) error {
	for _, to := range destinations {
		args := append(h.Args(), "ip", family(to.Addr()), "route", "replace", "blackhole", to.String())
		if err := run(ctx, args...); err != nil {
			return fmt.Errorf("make %s drop what is for %s: %w", h.Name, to, err)
		}
	}
	return nil
}

// Listen listens for TCP in the host's network, at an address and port.
func (h *Host) Listen(ctx context.Context, at netip.AddrPort) (listener net.Listener, err error) {
	err = h.Do(func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
		return err
	})
	return listener, err
}

// Dial connects from the host's network to an address and port.
func (h *Host) Dial(ctx context.Context, dialer *net.Dialer, network, address string) (connection net.Conn, err error) {
	err = h.Do(func() (err error) {
		connection, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return connection, err
}

func family(addr netip.Addr) string {
	if addr.Is4() {
		return "-4"
	}
	return "-6"
}

// run runs a command to its end.
func run(ctx context.Context, args ...string) error {
	_, err := output(ctx, args...)
	return err
}

// output runs a command to its end and returns what it wrote to its standard output.
func output(ctx context.Context, args ...string) ([]byte, error) {
	written, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return written, nil
}
