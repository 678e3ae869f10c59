package sandbox

import (
	"context"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/netlab"
)

// Segment is an Ethernet segment inside the sandbox: a bridge in the namespace of the test itself.
type Segment struct {
	// Addrs are the test's own addresses on the segment.
	Addrs []netip.Prefix

	segment *netlab.Segment
}

// NewSegment makes a segment on which the test has addresses.
func NewSegment(t *testing.T, addrs ...netip.Prefix) *Segment {
	t.Helper()
	segment, err := netlab.NewSegment(t.Context(), addrs...)
	if err != nil {
		t.Fatal(err)
	}
	return &Segment{Addrs: addrs, segment: segment}
}

// Host is a network namespace. Commands run in it with its Args before them; unlike with "ip netns exec", /sys stays as it is
// then, with the control groups that a kubelet looks for.
type Host = netlab.Host

// NewHost makes a host with addresses on the segment, whose way to everywhere else is the test itself. Names may have up to eleven
// characters.
func (s *Segment) NewHost(t *testing.T, name string, addrs ...netip.Prefix) *Host {
	t.Helper()
	var gateways []netip.Addr
	for _, own := range s.Addrs {
		gateways = append(gateways, own.Addr())
	}
	host, err := s.segment.NewHost(t.Context(), name, addrs, gateways...)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// Cut takes a host off the segment.
func (s *Segment) Cut(ctx context.Context, h *Host) error { return s.segment.Cut(ctx, h) }

// Command runs a command to its end, fails the test with its output when it fails, and returns its standard output.
func Command(t *testing.T, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}
