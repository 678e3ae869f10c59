package bgp

import (
	"fmt"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Problem names what keeps a router from having everything that is announced. There are few, and their names do not change: they are labels
// of metrics and words of conditions. The details are in sentences beside them.
type Problem string

// The problems of a session that is not up, or was not the last time.
const (
	// NoAnswer says that no host answers at the router's address, or that both sides do not agree on a password.
	NoAnswer Problem = "NoAnswer"
	// ConnectionRefused says that nothing listens at the router's address.
	ConnectionRefused Problem = "ConnectionRefused"
	// CannotConnect says that a connection fails for another reason, such as a missing route.
	CannotConnect Problem = "CannotConnect"
	// ConnectionClosed says that the router closes the connection before the session begins.
	ConnectionClosed Problem = "ConnectionClosed"
	// WrongASN says that one side has another AS than the other side expects.
	WrongASN Problem = "WrongASN"
	// OpenRefused says that the router refused the speaker's OPEN message.
	OpenRefused Problem = "OpenRefused"
	// HoldTimeOver says that one side received nothing for the hold time.
	HoldTimeOver Problem = "HoldTimeOver"
	// BFDDown says that BFD found the path to the router, or from it, to be dead.
	BFDDown Problem = "BFDDown"
	// ConnectionLost says that the connection of a session broke.
	ConnectionLost Problem = "ConnectionLost"
	// Ended says that one side ended the session by a notification for another reason.
	Ended Problem = "SessionEnded"
	// NoPassword says that the password of the session cannot be read.
	NoPassword Problem = "PasswordNotReadable"
	// NoSource says that this machine has no address in the sourceSubnet of the router.
	NoSource Problem = "NoSourceAddress"
	// NoGateway says that this machine has no default route by which the router is found.
	NoGateway Problem = "NoGateway"
	// NoRouter says that no router, or more than one, is at the other end of the router's interface.
	NoRouter Problem = "NoRouter"
	// NoNode says that the router has nodeSelectors, and that the node of this replica is not known.
	NoNode Problem = "NodeNotFound"
	// NotUp says that the session is not up yet, and that nothing went wrong so far.
	NotUp Problem = "NotUpYet"
)

// The problems of a family of a session that is up.
const (
	// NoFamily says that the router does not take the family over this session.
	NoFamily Problem = "FamilyNotNegotiated"
	// NoAddPath says that the router takes one next hop of each destination only (RFC 7911).
	NoAddPath Problem = "NoAddPath"
)

// Words continues a sentence about the router. They are empty for no problem.
func (p Problem) Words() string {
	switch p {
	case "":
		return ""
	case NoAnswer:
		return "does not answer"
	case ConnectionRefused:
		return "refuses the connection"
	case CannotConnect:
		return "cannot be reached"
	case ConnectionClosed:
		return "closes the connection before the session begins"
	case WrongASN:
		return "has another AS than expected, or expects another one"
	case OpenRefused:
		return "refuses the OPEN message"
	case HoldTimeOver:
		return "was silent for the hold time"
	case BFDDown:
		return "is dead by BFD"
	case ConnectionLost:
		return "lost its connection"
	case Ended:
		return "ended its session"
	case NoPassword:
		return "has a password that cannot be read"
	case NoSource:
		return "has a sourceSubnet in which this machine has no address"
	case NoGateway:
		return "is the default gateway, and this machine has none"
	case NoRouter:
		return "is not found on its interface"
	case NoNode:
		return "has nodeSelectors, and this replica does not find its node"
	case NoFamily:
		return "does not take the address family"
	case NoAddPath:
		return "takes one next hop of each destination only"
	default:
		return "has no session yet"
	}
}

// failure is why a session is not up, or was not the last time.
type failure struct {
	problem Problem
	// words say it with all details.
	words string
}

// FamilyProblem is a problem of one family of a session, or of all of them.
type FamilyProblem struct {
	// Family is empty for a problem of the whole session.
	Family  config.AddressFamily
	Problem Problem
}

// FamilyProblems returns what keeps the router from having everything, the gravest first; none if nothing does.
func (s PeerStatus) FamilyProblems() []FamilyProblem {
	var found []FamilyProblem
	for _, missing := range s.Missing {
		found = append(found, FamilyProblem{Problem: missing})
	}
	if !s.Up() {
		if len(s.Missing) == 0 {
			found = append(found, FamilyProblem{Problem: s.down()})
		}
		return found
	}
	if s.OwnASN {
		found = append(found, FamilyProblem{Problem: WrongASN})
	}
	for _, family := range s.Families {
		switch {
		case !family.Negotiated:
			found = append(found, FamilyProblem{family.Family, NoFamily})
		case !family.AddPath:
			found = append(found, FamilyProblem{family.Family, NoAddPath})
		}
	}
	return found
}

// down returns why a session is not up.
func (s PeerStatus) down() Problem {
	if s.LastProblem == "" {
		return NotUp
	}
	return s.LastProblem
}

// Delivery returns why nothing of a family is announced to the router, empty if it is, and whether the session is to carry the family.
func (s PeerStatus) Delivery(family config.AddressFamily) (why Problem, wanted bool) {
	for _, status := range s.Families {
		switch {
		case status.Family != family:
			continue
		case !s.Up() && len(s.Missing) > 0:
			return s.Missing[0], true
		case !s.Up():
			return s.down(), true
		case !status.Negotiated:
			return NoFamily, true
		}
		return "", true
	}
	return "", false
}

// sentence says what a problem of a family means for it.
func (p FamilyProblem) sentence() string {
	if p.Problem == NoFamily {
		return fmt.Sprintf("the router does not take %s over this session: nothing of that family is announced to it", p.Family)
	}
	return fmt.Sprintf("the router does not take several paths to one %s destination (ADD-PATH receive, RFC 7911): it gets one next hop of each",
		p.Family)
}
