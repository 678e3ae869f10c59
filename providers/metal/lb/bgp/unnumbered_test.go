package bgp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// linkLocal waits until an interface of a host has a link-local address that can be used, and returns it.
func linkLocal(t *testing.T, host *sandbox.Host, device string) (addr netip.Addr) {
	t.Helper()
	poll.Until(t, device+" of "+host.Name+" has a link-local address", func(context.Context) error {
		shown := sandbox.Command(t, append(host.Args(), "ip", "-6", "-o", "addr", "show", "dev", device, "scope", "link", "-tentative")...)
		fields := strings.Fields(shown)
		at := slices.Index(fields, "inet6")
		if at < 0 {
			return fmt.Errorf("it has %q", shown)
		}
		prefix, err := netip.ParsePrefix(fields[at+1])
		addr = prefix.Addr()
		return err
	})
	return addr
}

// TestUnnumbered has sessions over links without addresses: with FRR, which knows the neighbors of such sessions by router advertisements only,
// and with BIRD. The routers learn addresses of both families with the link-local address of the speaker as their next hop, and reach them.
func TestUnnumbered(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	own := map[router.Kind]netip.Addr{}
	for _, r := range []*router.Router{l.frr, l.bird} {
		device := "to-" + r.Host.Name
		sandbox.Command(t, "ip", "link", "add", device, "netns", l.speaker.Name, "type", "veth", "peer", "name", "rack", "netns", r.Host.Name)
		sandbox.Command(t, append(l.speaker.Args(), "ip", "link", "set", device, "up")...)
		sandbox.Command(t, append(r.Host.Args(), "ip", "link", "set", "rack", "up")...)
		own[r.Kind] = linkLocal(t, l.speaker, device)
		linkLocal(t, r.Host, "rack")
	}
	const password = "of-both-sides"
	l.frr.Configure(t, router.Config{Neighbors: []router.Neighbor{{BFD: true}}, Text: fmt.Sprintf(`log stdout informational
router bgp 64512
 bgp router-id %s
 no bgp default ipv4-unicast
 neighbor rack interface remote-as internal
 neighbor rack password %s
 neighbor rack bfd 3 1000 1000
 address-family ipv4 unicast
  neighbor rack activate
 exit-address-family
 address-family ipv6 unicast
  neighbor rack activate
 exit-address-family
`, frrAddr, password)})
	l.bird.Configure(t, router.Config{Text: fmt.Sprintf(`log stderr all;
router id %s;
protocol device { scan time 1; }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }
protocol kernel { ipv6 { import none; export where source = RTS_BGP; }; }
protocol radv { interface "rack" { max ra interval 4; min ra interval 3; }; }
protocol bgp rack {
	local as %d;
	neighbor range fe80::/10 external;
	interface "rack";
	direct;
	ttl security on;
	dynamic name "found";
	ipv4 { import all; export none; extended next hop on; add paths rx; };
	ipv6 { import all; export none; add paths rx; };
}
`, birdAddr, external)})
	l.frr.Restart(t)
	l.bird.Restart(t)

	file := filepath.Join(l.dir, "password")
	must.NoError(t, os.WriteFile(file, []byte(password), 0o600))
	byLink := func(p config.BGPPeer) config.BGPPeer {
		p.Address, p.Interface = "", "to-"+p.Name
		return p
	}
	toFRR, toBIRD := byLink(fast(frrPeer)), byLink(birdPeer)
	toFRR.PasswordFile = file
	toBIRD.TTLSecurityHops = 1
	missing := byLink(peer("missing", frrAddr, internal))
	missing.Interface = "eth0"
	asked := section(toFRR, toBIRD, missing)
	groups := asked.Groups()
	if len(groups) != 1 || !groups[0].OwnNode {
		t.Fatalf("the groups are %+v", groups)
	}
	announced := routing.Table{}
	for _, prefix := range []netip.Prefix{v4Service, v6Service} {
		add(announced, prefix, "public", 0)
		route := announced[prefix]
		route.Groups = map[string]routing.Hops{groups[0].Name: {NextHops: route.NextHops, Attributes: []routing.Attributes{{LocalPreference: 100}}}}
		announced[prefix] = route
	}
	p := startSpeaker(t, l.speaker, l.dir, asked)
	p.announce(t, announced)
	up(t, p, "frr", "bird")
	if status := p.peers(t)["missing"]; status.Up() || !slices.Equal(status.Missing, []bgp.Problem{bgp.NoRouter}) {
		t.Errorf("a router that is not at the other end: %+v", status)
	}
	l.both(t, "both families by the link", time.Now(), func(r *router.Router) error {
		want := router.FIB{v4Service: {own[r.Kind]}, v6Service: {own[r.Kind]}}
		if got := r.FIB(t); !got.Equal(want) {
			return fmt.Errorf("its kernel has %v, want %v", got, want)
		}
		return nil
	})
	for _, prefix := range []netip.Prefix{v4Service, v6Service} {
		sandbox.Command(t, append(l.speaker.Args(), "ip", "addr", "add", prefix.String(), "dev", "lo", "nodad")...)
		at := netip.AddrPortFrom(prefix.Addr(), 8080)
		listener, err := l.speaker.Listen(t.Context(), at)
		must.NoError(t, err)
		defer listener.Close()
		for _, r := range []*router.Router{l.frr, l.bird} {
			poll.Until(t, fmt.Sprintf("%s reaches %s", r.Kind, at), func(ctx context.Context) error {
				conn, err := r.Host.Dial(ctx, &net.Dialer{Timeout: 10 * time.Second}, "tcp", at.String())
				if err != nil {
					return err
				}
				return conn.Close()
			})
		}
	}
	poll.Until(t, "BFD is up on FRR", func(context.Context) error {
		if shown := l.frr.Show(t, "show bfd peers brief"); !strings.Contains(strings.ToLower(shown), " up") {
			return errors.New(shown)
		}
		return nil
	})
	// A router that is replaced has another address. The session begins anew with it, and the other one goes on.
	flaps := p.peers(t)["bird"].Flaps
	sandbox.Command(t, append(l.frr.Host.Args(), "ip", "link", "set", "rack", "down")...)
	says(t, p, "frr", "BFD")
	sandbox.Command(t, append(l.frr.Host.Args(), "ip", "link", "set", "rack", "address", "02:00:00:00:00:77")...)
	sandbox.Command(t, append(l.frr.Host.Args(), "ip", "link", "set", "rack", "up")...)
	replaced := linkLocal(t, l.frr.Host, "rack")
	poll.Until(t, "a session with the other router", func(context.Context) error {
		if status := p.peers(t)["frr"]; !status.Up() || status.Address.WithZone("") != replaced {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	if status := p.peers(t)["bird"]; !status.Up() || status.Flaps != flaps {
		t.Errorf("the session with BIRD: %+v", status)
	}
	p.stop(t, bgp.Withdraw)
	l.converges(t, "stopped", routing.Table{})
}
