package sandbox

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
)

const bridge = "segment"

// Segment is an Ethernet segment inside the sandbox: a bridge in the namespace of the test itself.
type Segment struct {
	// Addrs are the test's own addresses on the segment.
	Addrs []netip.Prefix
}

// NewSegment makes a segment on which the test has addresses.
func NewSegment(t *testing.T, addrs ...netip.Prefix) *Segment {
	t.Helper()
	Command(t, "ip", "link", "add", bridge, "type", "bridge")
	addAddrs(t, nil, bridge, addrs)
	Command(t, "ip", "link", "set", bridge, "up")
	return &Segment{Addrs: addrs}
}

// Host is a network namespace with one interface on a segment.
type Host struct {
	// Name is the name of the namespace.
	Name string
}

// NewHost makes a host with addresses on the segment. Names may have up to eleven characters.
func (s *Segment) NewHost(t *testing.T, name string, addrs ...netip.Prefix) *Host {
	t.Helper()
	host := &Host{Name: name}
	outer := "veth" + name
	Command(t, "ip", "netns", "add", name)
	Command(t, "ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
	Command(t, "ip", "link", "set", outer, "master", bridge, "up")
	inside := host.Args()
	Command(t, append(inside, "ip", "link", "set", "lo", "up")...)
	addAddrs(t, inside, "eth0", addrs)
	Command(t, append(inside, "ip", "link", "set", "eth0", "up")...)
	for _, own := range s.Addrs {
		Command(t, append(inside, "ip", family(own), "route", "add", "default", "via", own.Addr().String())...)
	}
	return host
}

// Args are the words to put before a command so that it runs in the host's network. Unlike with "ip netns exec", /sys
// stays as it is, with the control groups that a kubelet looks for.
func (h *Host) Args() []string { return []string{"nsenter", "--net=/run/netns/" + h.Name} }

// addAddrs adds addresses. Duplicate address detection would make IPv6 addresses unusable for a second.
func addAddrs(t *testing.T, inside []string, device string, addrs []netip.Prefix) {
	t.Helper()
	for _, addr := range addrs {
		args := append([]string{}, inside...)
		args = append(args, "ip", family(addr), "address", "add", addr.String(), "dev", device)
		if addr.Addr().Is6() {
			args = append(args, "nodad")
		}
		Command(t, args...)
	}
}

func family(addr netip.Prefix) string {
	if addr.Addr().Is4() {
		return "-4"
	}
	return "-6"
}

// Command runs a command to its end, fails the test with its output when it fails, and returns its standard output.
func Command(t *testing.T, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// String names the host as in a log.
func (h *Host) String() string { return fmt.Sprintf("host %s", h.Name) }
