package layer2

import (
	"hash/fnv"
	"net/netip"
	"time"
)

const (
	// askAgain is the time between two questions for the Ethernet address of a next hop that has not answered.
	askAgain = 250 * time.Millisecond
	// confirmAgain is the time after which one that has answered is asked again: its interface may have been replaced.
	confirmAgain = 10 * time.Second
	// refreshAgain is how often hosts that asked for an address are answered again. They would otherwise ask the next hop itself whether it
	// still has the address, which it does not know of; Linux does so after 15 to 45 s.
	refreshAgain = 10 * time.Second
	// forget is how long after their latest question they are answered.
	forget = 10 * time.Minute
	// mostAskers bounds how many are remembered.
	mostAskers = 8192
)

// gratuitous is when after a change all hosts of the segment get gratuitous answers. More than once, because a frame may be lost, and
// more than a second apart, because Linux ignores what would replace an entry that is younger than that.
var gratuitous = [...]time.Duration{0, 200 * time.Millisecond, 1200 * time.Millisecond, 3 * time.Second}

// frame is what is to be sent: an ARP packet, or an IPv6 one.
type frame struct {
	to      mac
	is6     bool
	payload []byte
}

// held is an address that is answered for.
type held struct {
	nextHop netip.Addr
	// link is the Ethernet address that was last answered for it; zero for none.
	link mac
	// due are the times at which gratuitous answers are to be sent after a change.
	due []time.Time
	// repeated is when they were last sent without a change, or when they would have been.
	repeated time.Time
}

// neighbor is a next hop.
type neighbor struct {
	link  mac // zero if it is not known
	asked time.Time
	own   bool
}

// asker is a host that asked for an address.
type asker struct {
	addr netip.Addr // that was asked for
	host netip.Addr
	link mac
}

// askerTimes are when it asked last, and when it was answered last.
type askerTimes struct{ asked, answered time.Time }

// segment is what is known of one interface and the hosts behind it. It does no I/O and reads no clock: what it is given returns
// the frames that follow from it.
//
// The answers name the Ethernet address of the next hop, not of this machine: traffic goes from the client straight to a node whose
// kube-proxy takes it, as with the next hops of BGP. When this replica dies, hosts that know the address notice nothing.
type segment struct {
	network network
	link    mac
	// every is how often gratuitous answers are repeated; zero for never.
	every time.Duration
	// source6 is the own address that IPv6 packets come from.
	source6 netip.Addr

	held      map[netip.Addr]*held
	neighbors map[netip.Addr]*neighbor
	askers    map[asker]askerTimes
}

func newSegment(network network, link mac) *segment {
	return &segment{network: network, link: link, source6: network.source6(), askers: map[asker]askerTimes{},
		held: map[netip.Addr]*held{}, neighbors: map[netip.Addr]*neighbor{}}
}

// repeat says how often gratuitous answers are sent without a change; zero for never.
func (s *segment) repeat(every time.Duration, now time.Time) {
	if every == s.every {
		return
	}
	s.every = every
	for addr, held := range s.held {
		held.repeated = now.Add(-s.offset(addr))
	}
}

// assign says which addresses are answered for, and by which next hops.
func (s *segment) assign(next map[netip.Addr]netip.Addr, now time.Time) []frame {
	for addr := range s.held {
		if _, stays := next[addr]; !stays {
			delete(s.held, addr)
		}
	}
	needed := map[netip.Addr]bool{}
	for addr, hop := range next {
		needed[hop] = true
		if s.neighbors[hop] == nil {
			s.neighbors[hop] = &neighbor{}
			if s.network.owns(hop) {
				s.neighbors[hop] = &neighbor{link: s.link, own: true}
			}
		}
		if known := s.held[addr]; known == nil {
			s.held[addr] = &held{nextHop: hop}
		} else {
			known.nextHop = hop
		}
	}
	for hop := range s.neighbors {
		if !needed[hop] {
			delete(s.neighbors, hop)
		}
	}
	return s.tick(now)
}

// tick returns what is due: questions for next hops, and gratuitous answers.
func (s *segment) tick(now time.Time) []frame {
	var frames []frame
	for hop, neighbor := range s.neighbors {
		pause := confirmAgain
		if neighbor.link == (mac{}) {
			pause = askAgain
		}
		if !neighbor.own && now.Sub(neighbor.asked) >= pause {
			neighbor.asked = now
			frames = append(frames, s.question(hop)...)
		}
	}
	unasked := map[netip.Addr]bool{}
	for addr, held := range s.held {
		if link := s.neighbors[held.nextHop].link; link != held.link && link != (mac{}) {
			held.link, held.due = link, nil
			for _, after := range gratuitous {
				held.due = append(held.due, now.Add(after))
			}
			held.repeated = now.Add(-s.offset(addr))
		}
		if held.takeDue(now, s.every) {
			unasked[addr] = true
			frames = append(frames, s.announceAll(addr, held.link)...)
		}
	}
	return append(frames, s.refresh(now, unasked)...)
}

// takeDue reports whether gratuitous answers are to be sent now, and counts them as sent. They are not before the next hop is known.
func (h *held) takeDue(now time.Time, every time.Duration) bool {
	switch {
	case h.link == (mac{}):
		return false
	case len(h.due) > 0:
		if now.Before(h.due[0]) {
			return false
		}
		h.due = h.due[1:]
		return true
	case every <= 0 || now.Sub(h.repeated) < every:
		return false
	}
	h.repeated = now
	return true
}

// offset spreads the repeated answers of many addresses over the interval, so they are no burst: the first ones come up to half
// an interval sooner.
func (s *segment) offset(addr netip.Addr) time.Duration {
	if s.every < 2 {
		return 0
	}
	hash := fnv.New64a()
	raw := addr.As16()
	_, _ = hash.Write(raw[:]) // never fails
	return time.Duration(hash.Sum64() % uint64(s.every/2))
}

// refresh answers hosts that asked before once more, and forgets hosts that asked long ago. It answers at once for addresses that have just
// been announced to all hosts unasked: Linux doubts what it learns like that, and would ask the next hop itself within 5 s.
func (s *segment) refresh(now time.Time, unasked map[netip.Addr]bool) []frame {
	var frames []frame
	for asker, times := range s.askers {
		held := s.held[asker.addr]
		switch {
		case held == nil || now.Sub(times.asked) >= forget:
			delete(s.askers, asker)
		case held.link != (mac{}) && (unasked[asker.addr] || now.Sub(times.answered) >= refreshAgain):
			s.askers[asker] = askerTimes{times.asked, now}
			frames = append(frames, s.answer(asker, held.link))
		}
	}
	return frames
}

// hearARP takes an ARP packet.
func (s *segment) hearARP(packet arp, now time.Time) []frame {
	frames := s.learn(packet.sender, packet.senderMAC, now)
	held := s.held[packet.target]
	if packet.operation != arpRequest || held == nil || packet.sender == packet.target || !packet.senderMAC.isUnicast() {
		return frames
	}
	return append(frames, s.reply(asker{packet.target, packet.sender, packet.senderMAC}, held, now)...)
}

// hearNDP takes a neighbor solicitation or advertisement. From is the Ethernet address that it came from.
func (s *segment) hearNDP(message ndp, from mac, now time.Time) []frame {
	if message.kind == advertisement {
		return s.learn(message.target, message.link, now)
	}
	held := s.held[message.target]
	if held == nil || !from.isUnicast() {
		return nil
	}
	link := message.link
	if link == (mac{}) {
		link = from
	}
	return s.reply(asker{message.target, message.source, link}, held, now)
}

// learn takes the Ethernet address of a next hop. Gratuitous answers are sent at once if it has changed.
func (s *segment) learn(addr netip.Addr, link mac, now time.Time) []frame {
	known := s.neighbors[addr]
	if known == nil || known.own || known.link == link || !link.isUnicast() {
		return nil
	}
	known.link = link
	return s.tick(now)
}

// reply answers, and remembers who asked. Until the next hop's Ethernet address is known there is no answer.
func (s *segment) reply(asker asker, held *held, now time.Time) []frame {
	times := askerTimes{asked: now}
	if held.link != (mac{}) {
		times.answered = now
	}
	if _, known := s.askers[asker]; !asker.host.IsUnspecified() && (known || len(s.askers) < mostAskers) {
		s.askers[asker] = times
	}
	if held.link == (mac{}) {
		return nil
	}
	return []frame{s.answer(asker, held.link)}
}

// answer is the answer to one host.
func (s *segment) answer(asker asker, link mac) frame {
	if asker.addr.Is4() {
		reply := arp{operation: arpReply, senderMAC: link, sender: asker.addr, targetMAC: asker.link, target: asker.host}
		return frame{to: asker.link, payload: reply.bytes()}
	}
	advertised := ndp{kind: advertisement, source: s.source6, destination: asker.host, flags: flagSolicited | flagOverride,
		target: asker.addr, link: link}
	if asker.host.IsUnspecified() { // a host is about to take the address (RFC 4862 section 5.4.3)
		advertised.destination, advertised.flags = allNodes, flagOverride
		return frame{to: multicastMAC(allNodes), is6: true, payload: advertised.bytes()}
	}
	return frame{to: asker.link, is6: true, payload: advertised.bytes()}
}

// announceAll sends all hosts gratuitous answers. Of IPv4 hosts some take it from a request only, and some from a reply only (RFC 5227 section 3).
func (s *segment) announceAll(addr netip.Addr, link mac) []frame {
	if addr.Is6() {
		advertised := ndp{kind: advertisement, source: s.source6, destination: allNodes, flags: flagOverride, target: addr, link: link}
		return []frame{{to: multicastMAC(allNodes), is6: true, payload: advertised.bytes()}}
	}
	request := arp{operation: arpRequest, senderMAC: link, sender: addr, target: addr}
	reply := arp{operation: arpReply, senderMAC: link, sender: addr, targetMAC: broadcast, target: addr}
	return []frame{{to: broadcast, payload: request.bytes()}, {to: broadcast, payload: reply.bytes()}}
}

// question asks for the Ethernet address of a next hop.
func (s *segment) question(hop netip.Addr) []frame {
	if hop.Is4() {
		request := arp{operation: arpRequest, senderMAC: s.link, sender: s.network.source4(hop), target: hop}
		return []frame{{to: broadcast, payload: request.bytes()}}
	}
	group := solicitedNode(hop)
	asked := ndp{kind: solicitation, source: s.source6, destination: group, target: hop, link: s.link}
	return []frame{{to: multicastMAC(group), is6: true, payload: asked.bytes()}}
}
