package pool

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mooring-ccm/mooring/internal/message"
)

// Request is what a Service asks for, and what it has.
type Request struct {
	Holder
	// Families are those of which the Service shall have an address each, or as many as it asks for, in its order. Policy says whether it must.
	Families []corev1.IPFamily
	Policy   corev1.IPFamilyPolicy
	// Asked are addresses that the Service asks for; a family without one gets what is free.
	Asked []netip.Addr
	// Pool is the pool that the Service asks for; empty: any that assigns addresses by itself.
	Pool string
	// AskedIn and PoolIn are the fields that ask for addresses and the pool, as the Service names them.
	AskedIn, PoolIn string
	// Labels are those of the Service, NamespaceLabels those of its namespace.
	Labels, NamespaceLabels labels.Set
	// Held are the addresses that the Service has.
	Held []netip.Addr
}

// Grant is what a Service gets.
type Grant struct {
	// Addresses are in the order of the Service's families.
	Addresses []netip.Addr
	// Notes are what the Service's owner should know.
	Notes []Note
}

// NoteReason says what a note is about.
type NoteReason string

const (
	// Degraded says that a Service that prefers two families got one.
	Degraded NoteReason = "DualStackDegraded"
	// Stranded says that a Service keeps an address that it would not get today: the pools have changed.
	Stranded NoteReason = "AddressOutsidePools"
	// OfNode says that a Service gives up an address that a node has.
	OfNode NoteReason = "AddressOfNode"
)

// Note is something that the Service's owner should know although the request is met.
type Note struct {
	Reason NoteReason
	// Message is a sentence without its full stop.
	Message string
}

// StrandedNote says that a Service keeps an address that is in no pool.
func StrandedNote(addr netip.Addr) Note {
	return Note{Stranded, fmt.Sprintf("The Service keeps %s, which is no longer in a pool", addr)}
}

// Allocate decides which addresses a Service gets. A Service keeps what it has, whatever became of the pools, unless it asks for
// something else, an older Service has the same address, or a node has it. The error is a *RefusedError; then the Service gets nothing new, and
// what it has is as it was.
func Allocate(s *State, r Request) (Grant, error) {
	if err := r.validate(); err != nil {
		return Grant{}, err
	}
	var grant Grant
	r.Held, grant.Notes = s.withoutReserved(r.Held)
	var refused []*RefusedError
	take := func(addr netip.Addr, notes []Note, refusal *RefusedError) {
		if refusal != nil {
			refused = append(refused, refusal)
			return
		}
		grant.Addresses = append(grant.Addresses, addr)
		grant.Notes = append(grant.Notes, notes...)
	}
	for _, family := range r.Families {
		asked := false
		for i, addr := range r.Asked {
			if FamilyOf(addr) == family && !slices.Contains(r.Asked[:i], addr) {
				take(s.giveAsked(r, addr))
				asked = true
			}
		}
		if !asked {
			take(s.choose(r, family))
		}
	}
	switch {
	case len(refused) == 0:
		return grant, nil
	case len(grant.Addresses) > 0 && r.doesWithout(refused[0]):
		grant.Notes = append(grant.Notes, Note{Degraded, fmt.Sprintf("The Service prefers dual stack and has no %s address: %s",
			refused[0].Family, refused[0].Message)})
		return grant, nil
	default:
		return Grant{}, joined(refused)
	}
}

// validate returns how a request contradicts itself.
func (r Request) validate() error {
	if len(r.Families) == 0 {
		return refuse(Invalid, "", "the Service has no IP family")
	}
	for _, addr := range r.Asked {
		if family := FamilyOf(addr); !slices.Contains(r.Families, family) {
			return refuse(FamilyMissing, family, "the Service asks for %s, and its ipFamilies have no %s", addr, family)
		}
	}
	return nil
}

// doesWithout reports whether a Service makes do without the family that was refused: it says so, and did not ask for an address
// of that family by itself.
func (r Request) doesWithout(refusal *RefusedError) bool {
	return r.Policy == corev1.IPFamilyPolicyPreferDualStack && refusal.Reason != Conflict &&
		!ofFamily(r.Asked, refusal.Family).IsValid()
}

// joined makes one error of those of the families.
func joined(refused []*RefusedError) error {
	if len(refused) == 1 {
		return refused[0]
	}
	messages := make([]string, len(refused))
	for i, one := range refused {
		messages[i] = one.Message
	}
	return &RefusedError{Reason: refused[0].Reason, Message: strings.Join(slices.Compact(messages), "; ")}
}

// ofFamily returns the first address of a family, or the zero address if there is no such address.
func ofFamily(addrs []netip.Addr, family corev1.IPFamily) netip.Addr {
	for _, addr := range addrs {
		if FamilyOf(addr) == family {
			return addr
		}
	}
	return netip.Addr{}
}

// giveAsked decides about an address that a Service asks for.
func (s *State) giveAsked(r Request, addr netip.Addr) (netip.Addr, []Note, *RefusedError) {
	if slices.Contains(r.Held, addr) {
		return s.keep(r, addr)
	}
	return addr, nil, s.refusesAsked(r, addr)
}

// choose decides about a family of which a Service asks for no address.
func (s *State) choose(r Request, family corev1.IPFamily) (netip.Addr, []Note, *RefusedError) {
	if held := ofFamily(r.Held, family); held.IsValid() && !s.leaves(r, held) {
		return s.keep(r, held)
	}
	addr, refusal := s.assign(r, family)
	return addr, nil, refusal
}

// leaves reports whether a Service gives up an address because it asks for another pool, or because it asks for a port that another Service
// has with which it shares, or no longer shares with it. A pool that there is no more is no reason, nor is an address that is in none: it may have been that pool's when the
// Service got it.
func (s *State) leaves(r Request, held netip.Addr) bool {
	if lost := s.loses(held, &r.Holder); lost != nil && (lost.Turned || !r.settled()) {
		return true
	}
	from := s.pools.of(held)
	return from != nil && s.pools.byName[r.Pool] != nil && from.Name != r.Pool
}

// keep leaves a Service the address that it has.
func (s *State) keep(r Request, addr netip.Addr) (netip.Addr, []Note, *RefusedError) {
	if lost := s.loses(addr, &r.Holder); lost != nil {
		why := "is older"
		switch {
		case lost.Turned:
			why = "shares it as before"
		case lost.Winner.Created.After(r.Created):
			why = "had the port first"
		}
		return addr, nil, refuse(Conflict, FamilyOf(addr), "%s is also the address of the Service %s, which %s and keeps it: %s",
			addr, lost.Winner.Service, why, lost.Obstacle)
	}
	switch pool := s.pools.of(addr); {
	case pool == nil:
		return addr, []Note{StrandedNote(addr)}, nil
	case !pool.allows(r):
		note := fmt.Sprintf("The Service keeps %s, although pool %s is no longer for it", addr, pool.Name)
		return addr, []Note{{Stranded, note}}, nil
	default:
		return addr, nil, nil
	}
}

// refusesAsked returns why a Service does not get the address that it asks for, nil if it does.
func (s *State) refusesAsked(r Request, addr netip.Addr) *RefusedError {
	pool, family := s.pools.of(addr), FamilyOf(addr)
	switch {
	case pool == nil:
		return refuse(OutsidePools, family, "%s is in no pool%s", addr, s.advice(r, r.AskedIn, family, true))
	case r.Pool != "" && r.Pool != pool.Name:
		return refuse(OutsidePools, family, "%s is in pool %s, and the Service asks for pool %s: change %s", addr, pool.Name, r.Pool,
			cmp.Or(r.PoolIn, "either"))
	case pool.Disabled:
		return switchedOff(pool, family)
	case !pool.allows(r):
		return forbidden(r, pool, family)
	}
	if refusal := s.refusesReserved(addr); refusal != nil {
		return refusal
	}
	if other, obstacle := s.bars(addr, &r.Holder); other != nil {
		return refuse(Conflict, family, "%s is held by the Service %s: %s", addr, other.Service, obstacle)
	}
	return nil
}

// maxChoices is how many pools a refusal names.
const maxChoices = 5

// advice says what a field of the Service may ask for: pools that are for it and have addresses of a family, with their addresses if those are asked for.
func (s *State) advice(r Request, in string, family corev1.IPFamily, addresses bool) string {
	if in == "" {
		return ""
	}
	var choices []string
	for _, pool := range s.pools.ordered {
		if pool.Disabled || !pool.allows(r) || len(pool.ranges[family]) == 0 {
			continue
		}
		choice := pool.Name
		if addresses {
			choice += " (" + strings.Join(pool.Addresses[:min(len(pool.Addresses), maxChoices)], ", ") + ")"
		}
		choices = append(choices, choice)
	}
	switch {
	case len(choices) == 0:
		return fmt.Sprintf("; remove %s: no pool is for this Service", in)
	case len(choices) > maxChoices:
		choices = append(choices[:maxChoices], fmt.Sprintf("%d more", len(choices)-maxChoices))
	}
	what := "name one of the pools"
	if addresses {
		what = "ask for an address of one of the pools"
	}
	return fmt.Sprintf("; in %s, %s %s, or remove it", in, what, strings.Join(choices, ", "))
}

func forbidden(r Request, pool *compiled, family corev1.IPFamily) *RefusedError {
	return refuse(Forbidden, family, "pool %s is not for the Service %s by its namespaces or its serviceSelector",
		pool.Name, r.Service)
}

func switchedOff(pool *compiled, family corev1.IPFamily) *RefusedError {
	return refuse(Forbidden, family, "pool %s is disabled, and gives no more addresses", pool.Name)
}

// assign finds an address for a Service that asks for none: one that Services with its sharing key have, or else the lowest
// that is free.
func (s *State) assign(r Request, family corev1.IPFamily) (netip.Addr, *RefusedError) {
	pools, refusal := s.candidates(r, family)
	if refusal != nil {
		return netip.Addr{}, refusal
	}
	if addr := s.shared(r, family, pools); addr.IsValid() {
		return addr, nil
	}
	for _, pool := range pools {
		if addr, found := s.free[pool.Name][family].lowest(); found {
			return addr, nil
		}
	}
	taken := make([]string, len(pools))
	for i, pool := range pools {
		taken[i] = fmt.Sprintf("all %.0f of pool %s%s", s.free[pool.Name][family].size, pool.Name, s.reservedIn(pool, family))
	}
	return netip.Addr{}, refuse(Exhausted, family, "no %s address is free: %s are taken", family, strings.Join(taken, " and "))
}

// candidates returns the pools from which a Service may get an address of a family without asking for it, in order.
func (s *State) candidates(r Request, family corev1.IPFamily) ([]*compiled, *RefusedError) {
	if r.Pool != "" {
		pool := s.pools.byName[r.Pool]
		switch {
		case pool == nil:
			return nil, refuse(UnknownPool, family, "there is no pool %s%s", r.Pool, s.advice(r, r.PoolIn, family, false))
		case pool.Disabled:
			return nil, switchedOff(pool, family)
		case !pool.allows(r):
			return nil, forbidden(r, pool, family)
		case len(pool.ranges[family]) == 0:
			return nil, refuse(FamilyMissing, family, "pool %s has no %s addresses", r.Pool, family)
		}
		return []*compiled{pool}, nil
	}
	var candidates []*compiled
	var barred *compiled
	for _, pool := range s.pools.ordered {
		switch {
		case !pool.AutoAssigns() || len(pool.ranges[family]) == 0:
		case pool.allows(r):
			candidates = append(candidates, pool)
		case barred == nil:
			barred = pool
		}
	}
	switch {
	case len(candidates) > 0:
		return candidates, nil
	case barred != nil:
		return nil, forbidden(r, barred, family)
	default:
		return nil, refuse(FamilyMissing, family, "no pool that assigns addresses by itself has %s addresses", family)
	}
}

// shared returns the lowest address that a Service can share in the first pool that has one, the zero one if none has.
func (s *State) shared(r Request, family corev1.IPFamily, pools []*compiled) netip.Addr {
	inPool := map[*compiled]netip.Addr{}
	for addr := range s.byKey[r.SharingKey] {
		pool := s.pools.of(addr)
		if pool == nil || FamilyOf(addr) != family || !slices.Contains(pools, pool) || s.refusesReserved(addr) != nil {
			continue
		}
		if best, found := inPool[pool]; found && best.Less(addr) {
			continue
		}
		if other, _ := s.bars(addr, &r.Holder); other == nil {
			inPool[pool] = addr
		}
	}
	for _, pool := range pools {
		if addr, found := inPool[pool]; found {
			return addr
		}
	}
	return netip.Addr{}
}

// Reason says why a request is refused, for callers that decide by it. What it means to a person is in the message.
type Reason string

const (
	// Exhausted says that every address that the Service may have is taken.
	Exhausted Reason = "Exhausted"
	// Conflict says that another Service has the address, and that the two do not share it.
	Conflict Reason = "Conflict"
	// OutsidePools says that the address that was asked for is in no pool, or not in the one that was asked for.
	OutsidePools Reason = "OutsidePools"
	// FamilyMissing says that no pool that the Service may use has addresses of a family, or that an address of a family was
	// asked for that the Service does not have.
	FamilyMissing Reason = "FamilyMissing"
	// Forbidden says that the pool is not for this Service.
	Forbidden Reason = "Forbidden"
	// UnknownPool says that there is no pool of the name that was asked for.
	UnknownPool Reason = "UnknownPool"
	// Invalid says that what the Service asks for cannot be understood, or contradicts itself.
	Invalid Reason = "Invalid"
)

// RefusedError says that a Service does not get an address. Asking again cannot help until something else changes: the Service,
// the pools, or what other Services hold.
type RefusedError struct {
	// Reason is why.
	Reason Reason
	// Family is the family of the address; empty if the refusal is not about one.
	Family corev1.IPFamily
	// Message says it to people, as a clause.
	Message string
}

// maxMessage is how many bytes a refusal may have: it names what a Service asks for, which may be anything.
const maxMessage = 500

// Error returns the reason and the message.
func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

func refuse(reason Reason, family corev1.IPFamily, format string, args ...any) *RefusedError {
	return &RefusedError{reason, family, message.Printable(fmt.Sprintf(format, args...), maxMessage)}
}
