package instances

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// Owners knows whose nodes are. There is one in a manager, beside its Inventory. It is safe for concurrent use.
type Owners struct {
	inventory *Inventory
	rules     ownership.Rules
}

// NewOwners returns owners by rules.
func NewOwners(inventory *Inventory, rules ownership.Rules) *Owners {
	return &Owners{inventory: inventory, rules: rules}
}

// Rules are those by which it is decided whose a node is.
func (o *Owners) Rules() ownership.Rules { return o.rules }

// Decide decides by the rules.
func (o *Owners) Decide(node *corev1.Node) ownership.Decision { return o.rules.Decide(node) }

// Ours reports whether a node is ours by Decide.
func (o *Owners) Ours(node *corev1.Node) bool { return o.Decide(node).Owner == ownership.Ours }

// MemberOptions are what controllers differ in that ask which nodes take part in load balancers or routes.
type MemberOptions struct {
	// Believe is for how long an answer counts that does not prove a node to be ours, and how old one may be that says that its
	// instance is there.
	Believe time.Duration
	// LongestPause bounds the pause after which a node is asked for again for which the cloud returns errors, see QuestionOptions.
	LongestPause time.Duration
	// Late is called when answers have come that no Ask has waited for. Nil: nobody wants to know.
	Late func()
}

// Members says which nodes take part in what the cloud does for the cluster as a whole, as one controller sees it. It remembers what
// each node was taken for, so that a node about which there is nothing but an error keeps its membership. It is safe for concurrent
// use, except for Ask, whose calls must not overlap.
type Members struct {
	memberships *ownership.Memberships
	questions   *Questions
}

// Members returns a controller's view of which nodes take part. It has not asked for any node yet.
func (o *Owners) Members(options MemberOptions) *Members {
	return &Members{
		memberships: ownership.NewMemberships(o.rules, options.Believe),
		questions: o.inventory.Questions(func(ctx context.Context, nodes []*corev1.Node, yield Yield) {
			o.inventory.LookupEach(ctx, nodes, options.Believe, yield)
		}, QuestionOptions{Late: options.Late, LongestPause: options.LongestPause}),
	}
}

// Observe takes in which nodes there are, and forgets all others. Those of the first call were there before this process began to lead,
// and may have load balancers and routes already.
func (m *Members) Observe(nodes []corev1.Node) { m.memberships.Observe(nodes) }

// Decide is Owners.Decide.
func (m *Members) Decide(node *corev1.Node) ownership.Decision { return m.memberships.Decide(node) }

// Of returns the membership of a node by what is known. What is unclear leaves a node what it was. If that is not known, the node's
// provider ID decides; but a node that came later has nothing to lose, and waits for the answer.
func (m *Members) Of(node *corev1.Node) ownership.Membership { return m.memberships.Of(node) }

// Doubtful returns those of the nodes about which the plugin has to be asked.
func (m *Members) Doubtful(nodes []*corev1.Node, now time.Time) []*corev1.Node {
	return m.memberships.Doubtful(nodes, now)
}

// Ask asks whose nodes are, with the priority of ctx and as Questions.Ask does, and keeps what is said, as of now. It returns the
// answers that are errors: of such a node nothing new is known.
func (m *Members) Ask(ctx context.Context, nodes []*corev1.Node, now time.Time) (failed []Answer) {
	for _, answer := range m.questions.Ask(ctx, nodes) {
		if answer.Err != nil {
			m.GiveUp(answer.Node)
			failed = append(failed, answer)
			continue
		}
		seen := answer.Observation
		m.memberships.RecordAnswer(answer.Node, ownership.Answer{
			Found: seen.Status == Found, Denied: seen.Status == NotFound, ProviderID: seen.Answered,
		}, now)
	}
	return failed
}

// GiveUp notes that the answer for a node is not waited for any longer, as if it were an error. It takes nothing away from what was
// answered before.
func (m *Members) GiveUp(node *corev1.Node) { m.memberships.RecordError(node) }

// Awaited reports whether the membership of a node hangs on an answer: there has been none, and an error leaves a node out that may be
// ours.
func (m *Members) Awaited(node *corev1.Node) bool { return m.memberships.Awaited(node) }

// Denies reports whether there are nodes that the plugin does not know. It may get to know them.
func (m *Members) Denies() bool { return m.memberships.Denies() }
