package layer2

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const (
	vip4, vip6     = "10.0.0.200", "fd00::200"
	node4, node6   = "10.0.0.11", "fd00::11"
	other4, own4   = "10.0.0.12", "10.0.0.2"
	client4, link6 = "10.0.0.100", "fe80::100"
)

func testSegment() *segment {
	return newSegment(networkOf("eth0", own4+"/24", "fd00::2/64", "fe80::2/64"), macA)
}

// text says what frames are, sorted.
func text(t *testing.T, frames []frame) string {
	t.Helper()
	var lines []string
	for _, frame := range frames {
		if !frame.is6 {
			packet, err := parseARP(frame.payload)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprintf("arp%d to %s: %s is at %s, asks for %s",
				packet.operation, frame.to, packet.sender, packet.senderMAC, packet.target))
			continue
		}
		message, err := parseNDP(frame.payload)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("ndp%d to %s %s: %s %s flags %x",
			message.kind, frame.to, message.destination, message.target, message.link, message.flags))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (s *segment) give(now time.Time, pairs ...string) []frame {
	next := map[netip.Addr]netip.Addr{}
	for i := 0; i < len(pairs); i += 2 {
		next[addr(pairs[i])] = addr(pairs[i+1])
	}
	return s.assign(next, now)
}

func request(from mac, host, target string) arp {
	return arp{operation: arpRequest, senderMAC: from, sender: addr(host), target: addr(target)}
}

func expect(t *testing.T, what string, frames []frame, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := text(t, frames); got != strings.Join(want, "\n") {
		t.Errorf("%s: sent\n%s\nwant\n%s", what, got, strings.Join(want, "\n"))
	}
}

func TestARPIsAnsweredWithTheNextHop(t *testing.T) {
	s, now := testSegment(), start
	question := "arp1 to ff:ff:ff:ff:ff:ff: 10.0.0.2 is at 02:00:00:00:00:0a, asks for 10.0.0.11"
	expect(t, "the next hop is asked for", s.give(now, vip4, node4), question)
	expect(t, "before it is known", s.hearARP(request(macC, client4, vip4), now))
	expect(t, "it is asked again", s.tick(now.Add(askAgain)), question)
	expect(t, "it answers, and all are told", s.hearARP(arp{operation: arpReply, senderMAC: macB, sender: addr(node4)}, now),
		"arp1 to ff:ff:ff:ff:ff:ff: 10.0.0.200 is at 02:00:00:00:00:0b, asks for 10.0.0.200",
		"arp2 to 02:00:00:00:00:0c: 10.0.0.200 is at 02:00:00:00:00:0b, asks for 10.0.0.100",
		"arp2 to ff:ff:ff:ff:ff:ff: 10.0.0.200 is at 02:00:00:00:00:0b, asks for 10.0.0.200")
	expect(t, "a client asks", s.hearARP(request(macC, client4, vip4), now),
		"arp2 to 02:00:00:00:00:0c: 10.0.0.200 is at 02:00:00:00:00:0b, asks for 10.0.0.100")
	expect(t, "a host asks for another address", s.hearARP(request(macC, client4, "10.0.0.201"), now))
	expect(t, "a host claims it", s.hearARP(request(macC, vip4, vip4), now))
	expect(t, "a host asks by a broadcast address", s.hearARP(request(broadcast, client4, vip4), now))
	expect(t, "a host that looks whether it is free", s.hearARP(request(macC, "0.0.0.0", vip4), now),
		"arp2 to 02:00:00:00:00:0c: 10.0.0.200 is at 02:00:00:00:00:0b, asks for 0.0.0.0")
}

func TestNDPIsAnsweredWithTheNextHop(t *testing.T) {
	s, now := testSegment(), start
	expect(t, "the next hop is asked for", s.give(now, vip6, node6),
		"ndp135 to 33:33:ff:00:00:11 ff02::1:ff00:11: fd00::11 02:00:00:00:00:0a flags 0")
	expect(t, "it answers, and all are told",
		s.hearNDP(ndp{kind: advertisement, target: addr(node6), link: macB}, macB, now),
		"ndp136 to 33:33:00:00:00:01 ff02::1: fd00::200 02:00:00:00:00:0b flags 20")
	asked := ndp{kind: solicitation, source: addr(link6), target: addr(vip6), link: macC}
	answer := "ndp136 to 02:00:00:00:00:0c fe80::100: fd00::200 02:00:00:00:00:0b flags 60"
	expect(t, "a client asks", s.hearNDP(asked, macC, now), answer)
	asked.link = mac{}
	expect(t, "one that does not say where it is", s.hearNDP(asked, macC, now), answer)
	asked.source = netip.IPv6Unspecified()
	expect(t, "a host that is about to take the address", s.hearNDP(asked, macC, now),
		"ndp136 to 33:33:00:00:00:01 ff02::1: fd00::200 02:00:00:00:00:0b flags 20")
}

func TestChangeOfNextHop(t *testing.T) {
	s, now := testSegment(), start
	s.give(now, vip4, node4)
	s.hearARP(arp{operation: arpReply, senderMAC: macB, sender: addr(node4)}, now)
	s.give(now, vip4, other4)
	expect(t, "as long as the new one is not known, the old one is told", s.hearARP(request(macC, client4, vip4), now),
		"arp2 to 02:00:00:00:00:0c: 10.0.0.200 is at 02:00:00:00:00:0b, asks for 10.0.0.100")
	told := "10.0.0.200 is at 02:00:00:00:00:0c, asks for 10.0.0.200"
	expect(t, "then all are told", s.hearARP(arp{operation: arpReply, senderMAC: macC, sender: addr(other4)}, now),
		"arp1 to ff:ff:ff:ff:ff:ff: "+told, "arp2 to ff:ff:ff:ff:ff:ff: "+told,
		"arp2 to 02:00:00:00:00:0c: 10.0.0.200 is at 02:00:00:00:00:0c, asks for 10.0.0.100")
	unasked := 1
	for ms := range 5000 {
		for _, frame := range s.tick(now.Add(time.Duration(ms) * time.Millisecond)) {
			if packet, err := parseARP(frame.payload); err == nil && packet.operation == arpReply && frame.to == broadcast {
				unasked++
			}
		}
	}
	if unasked != len(gratuitous) {
		t.Errorf("they were told %d times, want %d", unasked, len(gratuitous))
	}
	expect(t, "this machine needs not be asked for", s.give(now, vip4, own4),
		"arp1 to ff:ff:ff:ff:ff:ff: 10.0.0.200 is at 02:00:00:00:00:0a, asks for 10.0.0.200",
		"arp2 to 02:00:00:00:00:0c: 10.0.0.200 is at 02:00:00:00:00:0a, asks for 10.0.0.100",
		"arp2 to ff:ff:ff:ff:ff:ff: 10.0.0.200 is at 02:00:00:00:00:0a, asks for 10.0.0.200")
	s.give(now)
	expect(t, "an address that is taken away", s.hearARP(request(macC, client4, vip4), now))
}

func TestThoseWhoAskedAreToldAgain(t *testing.T) {
	s, now := testSegment(), start
	s.give(now, vip4, own4)
	for ms := range 4000 {
		s.tick(now.Add(time.Duration(ms) * time.Millisecond)) // what is told unasked
	}
	s.hearARP(request(macC, client4, vip4), now)
	told := 0
	for now = start.Add(4 * time.Second); now.Before(start.Add(2 * forget)); now = now.Add(time.Second) {
		for _, sent := range s.tick(now) {
			if sent.to != macC {
				t.Fatal(text(t, []frame{sent}))
			}
			told++
		}
	}
	if want := int(forget/refreshAgain) - 1; told != want || len(s.askers) != 0 {
		t.Errorf("told %d times, want %d; %d are remembered", told, want, len(s.askers))
	}
}

func TestThoseWhoAskedAreToldOfAChange(t *testing.T) {
	s, now := testSegment(), start
	s.give(now, vip4, own4)
	s.hearARP(request(macC, client4, vip4), now)
	expect(t, "with the next announcement to all", s.tick(now.Add(gratuitous[1])),
		"arp1 to ff:ff:ff:ff:ff:ff: 10.0.0.200 is at 02:00:00:00:00:0a, asks for 10.0.0.200",
		"arp2 to ff:ff:ff:ff:ff:ff: 10.0.0.200 is at 02:00:00:00:00:0a, asks for 10.0.0.200",
		"arp2 to 02:00:00:00:00:0c: 10.0.0.200 is at 02:00:00:00:00:0a, asks for 10.0.0.100")
}

func TestAskersAreBounded(t *testing.T) {
	s, now := testSegment(), start
	s.give(now, vip4, own4)
	for i := range mostAskers + 10 {
		host := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		s.hearARP(request(macC, host.String(), vip4), now)
	}
	if len(s.askers) != mostAskers {
		t.Errorf("%d are remembered", len(s.askers))
	}
}

// gratuitousTimes returns when all hosts were sent ARP replies for an address, over a time that begins after the burst of its change.
func gratuitousTimes(t *testing.T, s *segment, address string, from, until time.Duration) []time.Duration {
	t.Helper()
	var times []time.Duration
	for at := from; at < until; at += tick {
		for _, frame := range s.tick(start.Add(at)) {
			if frame.to != broadcast || frame.is6 {
				continue
			}
			packet, err := parseARP(frame.payload)
			if err != nil {
				t.Fatal(err)
			}
			if packet.operation == arpReply && packet.sender == addr(address) {
				times = append(times, at)
			}
		}
	}
	return times
}

const burst = 4 * time.Second

func TestGratuitousAnswersAreRepeated(t *testing.T) {
	s := testSegment()
	s.repeat(time.Minute, start)
	s.give(start, vip4, own4, vip6, "fd00::2")
	gratuitousTimes(t, s, vip4, 0, burst)
	times := gratuitousTimes(t, s, vip4, burst, 10*time.Minute)
	if len(times) < 9 || len(times) > 10 || times[0] < 30*time.Second || times[0] > time.Minute {
		t.Errorf("repeated at %s, want every minute", times)
	}
	for i := 1; i < len(times); i++ {
		if apart := times[i] - times[i-1]; apart < time.Minute || apart > time.Minute+tick {
			t.Errorf("%s and %s are %s apart", times[i-1], times[i], apart)
		}
	}
	advertised := 0
	for at := 10 * time.Minute; at < 12*time.Minute; at += tick {
		for _, frame := range s.tick(start.Add(at)) {
			if frame.is6 && frame.to == multicastMAC(allNodes) {
				advertised++
			}
		}
	}
	if advertised != 2 {
		t.Errorf("IPv6 was advertised %d times within two minutes", advertised)
	}
	s.repeat(0, start.Add(12*time.Minute))
	if times := gratuitousTimes(t, s, vip4, 12*time.Minute, 20*time.Minute); len(times) > 0 {
		t.Errorf("turned off, they are repeated at %s", times)
	}
}

func TestGratuitousAnswersAreSpread(t *testing.T) {
	s := testSegment()
	s.repeat(time.Minute, start)
	var pairs []string
	for i := range 200 {
		pairs = append(pairs, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String(), own4)
	}
	s.give(start, pairs...)
	most := 0
	for at := time.Duration(0); at < 3*time.Minute; at += tick {
		frames := len(s.tick(start.Add(at)))
		if at > burst {
			most = max(most, frames)
		}
	}
	if most > 20 { // 200 addresses in 600 ticks of half a minute, two frames each
		t.Errorf("%d frames are sent at once", most)
	}
}

func TestNothingIsRepeatedOfAnUnknownNextHop(t *testing.T) {
	s := testSegment()
	s.repeat(time.Minute, start)
	s.give(start, vip4, node4)
	if times := gratuitousTimes(t, s, vip4, 0, 5*time.Minute); len(times) > 0 {
		t.Errorf("it was announced at %s", times)
	}
}

func TestWhoLeadsNoMoreRepeatsNothing(t *testing.T) {
	responder := New(&config.L2{GratuitousInterval: &metav1.Duration{Duration: time.Minute}}, nil)
	if every := responder.every(); every != time.Minute {
		t.Errorf("it repeats every %s", every)
	}
	responder.StopRepeating()
	responder.Reconfigure(&config.L2{GratuitousInterval: &metav1.Duration{Duration: time.Hour}})
	if every := responder.every(); every != 0 {
		t.Errorf("it goes on every %s", every)
	}
}
