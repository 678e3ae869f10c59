package ownership

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Membership says whether a node takes part in what the cloud does for the cluster as a whole: load balancers and routes. The
// reference gives these every node, so that to leave one out needs a reason.
//
// See ADR 15.
type Membership int

const (
	// Undecided nodes keep what they have: nothing is made for them, and nothing of theirs is removed.
	Undecided Membership = iota
	// Outsider nodes belong to somebody else, or have a provider ID that says so.
	Outsider
	// Presumed nodes take part because nothing says that they belong to somebody else. What is there for them may have been made
	// by somebody else all the same.
	Presumed
	// Member nodes are ours.
	Member
)

// String returns the membership in lower case.
func (m Membership) String() string {
	switch m {
	case Outsider:
		return "outsider"
	case Presumed:
		return "presumed"
	case Member:
		return "member"
	default:
		return "undecided"
	}
}

// AnswerKind is what the plugin has said of an unproven node.
type AnswerKind int

const (
	// NoAnswer means that nothing is known: the plugin has not been asked, or has not answered yet.
	NoAnswer AnswerKind = iota
	// Inconclusive means that the plugin returned an error, or no statement. Many plugins return errors for provider IDs that they
	// cannot read, so that it says nothing of whose the node is.
	Inconclusive
	// Denied means that the plugin has no instance with the node's provider ID, or answered with another one.
	Denied
	// Proven means that the plugin answered as Decision.ProvenBy asks for.
	Proven
)

// Membership decides by what the plugin has said of the node. A node that has no provider ID and does not wait for its
// initialization is never shown to be another's by an answer for its name.
func (d Decision) Membership(answer AnswerKind) Membership {
	switch {
	case d.Owner == Foreign:
		return Outsider
	case d.Owner == Ours, answer == Proven:
		return Member
	case d.tainted:
		return Undecided
	default:
		return Presumed
	}
}

// decides reports whether the membership follows from what is known, and not from what is missing.
func (d Decision) decides(answer AnswerKind) bool {
	return d.Owner != Unproven || answer == Proven || !d.tainted
}

// Answer is what a plugin answered for a node.
type Answer struct {
	// Found and Denied say that it has an instance, or has none. Neither: it made no statement.
	Found, Denied bool
	// ProviderID is the one in the answer, empty if there was none.
	ProviderID string
}

// Memberships remembers what the plugin has said of nodes in doubt, and what they were taken for: a node about which there is
// nothing but an error keeps its membership. It asks nobody, and is safe for concurrent use.
type Memberships struct {
	rules   Rules
	believe time.Duration

	mu sync.Mutex
	// initial are the nodes that were there at the beginning; nil before it.
	initial map[types.UID]bool
	answers map[identity]recordedAnswer
	last    map[types.UID]Membership
}

// identity is what an answer for a node is about.
type identity struct {
	uid        types.UID
	providerID string
}

func identityOf(node *corev1.Node) identity { return identity{node.UID, node.Spec.ProviderID} }

// recordedAnswer is what was answered for a node.
type recordedAnswer struct {
	kind AnswerKind
	// at is when the plugin answered, zero if it has only returned errors.
	at time.Time
}

// NewMemberships returns memberships that know no node. Believe is for how long an answer counts that does not prove a node to be
// ours; one that does counts for good.
func NewMemberships(rules Rules, believe time.Duration) *Memberships {
	return &Memberships{
		rules: rules, believe: believe, answers: map[identity]recordedAnswer{}, last: map[types.UID]Membership{},
	}
}

// Observe notes which nodes there are, and forgets all others. Those of the first call were there before this process began to lead,
// and may have load balancers and routes already.
func (m *Memberships) Observe(nodes []corev1.Node) {
	current := make(map[types.UID]bool, len(nodes))
	for i := range nodes {
		current[nodes[i].UID] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.initial == nil {
		m.initial = maps.Clone(current)
	}
	maps.DeleteFunc(m.initial, func(uid types.UID, _ bool) bool { return !current[uid] })
	maps.DeleteFunc(m.last, func(uid types.UID, _ Membership) bool { return !current[uid] })
	maps.DeleteFunc(m.answers, func(of identity, _ recordedAnswer) bool { return !current[of.uid] })
}

// Doubtful returns those of the nodes about which the plugin has to be asked.
func (m *Memberships) Doubtful(nodes []*corev1.Node, now time.Time) (doubtful []*corev1.Node) {
	for _, node := range nodes {
		if m.Decide(node).Owner != Unproven {
			continue
		}
		known := m.recordedAnswer(node)
		if known.kind != Proven && (known.at.IsZero() || now.Sub(known.at) >= m.believe) {
			doubtful = append(doubtful, node)
		}
	}
	return doubtful
}

// Decide is Rules.Decide.
func (m *Memberships) Decide(node *corev1.Node) Decision { return m.rules.Decide(node) }

func (m *Memberships) recordedAnswer(node *corev1.Node) recordedAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recordedOf(node)
}

// recordedOf is recordedAnswer with the lock held.
func (m *Memberships) recordedOf(node *corev1.Node) recordedAnswer {
	return m.answers[identityOf(node)]
}

// RecordAnswer notes what the plugin answered for a node.
func (m *Memberships) RecordAnswer(node *corev1.Node, said Answer, now time.Time) {
	kind := Inconclusive
	switch decision := m.Decide(node); {
	case said.Found && decision.ProvenBy(said.ProviderID):
		kind = Proven
	case said.Found, said.Denied:
		kind = Denied
	}
	m.note(node, recordedAnswer{kind, now})
}

// RecordError notes that the plugin returned an error for a node, or that its answer is not waited for any longer. It takes nothing away
// from what was answered before.
func (m *Memberships) RecordError(node *corev1.Node) {
	if m.recordedAnswer(node).kind == NoAnswer {
		m.note(node, recordedAnswer{kind: Inconclusive})
	}
}

// note keeps an answer, unless it is less than a proof that came before: an instance that is gone was ours.
func (m *Memberships) note(node *corev1.Node, answer recordedAnswer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := identityOf(node); m.answers[of].kind != Proven {
		m.answers[of] = answer
	}
}

// Denies reports whether there are nodes that the plugin does not know. It may get to know them.
func (m *Memberships) Denies() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.answers {
		if known.kind == Denied {
			return true
		}
	}
	return false
}

// Awaited reports whether the membership of a node hangs on an answer: there has been none, and an error leaves a node out that
// may be ours.
func (m *Memberships) Awaited(node *corev1.Node) bool {
	return m.recordedAnswer(node).kind == NoAnswer
}

// Of returns the membership of a node. What is unclear leaves a node what it was. If that is not known, the node's provider ID
// decides; but a node that came later has nothing to lose, and waits for the answer.
func (m *Memberships) Of(node *corev1.Node) Membership {
	decision := m.Decide(node)
	m.mu.Lock()
	defer m.mu.Unlock()
	kind := m.recordedOf(node).kind
	membership := decision.Membership(kind)
	if decision.decides(kind) {
		m.last[node.UID] = membership
		return membership
	}
	if before, known := m.last[node.UID]; known {
		return before
	}
	if kind == Inconclusive && !m.initial[node.UID] {
		return Undecided
	}
	return membership
}
