package route

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/internal/ownership"
)

// standings finds out which nodes are ours.
type standings struct {
	rules     ownership.Rules
	evidence  ownership.Evidence
	questions *inventory.Questions
	// believe is how long an answer of the cloud about whose a node is counts.
	believe time.Duration

	mu      sync.Mutex
	answers map[identity]answer
}

// identity is what the answer for a node hangs on.
type identity struct {
	uid        types.UID
	providerID string
}

type answer struct {
	ours bool
	at   time.Time
}

// newStandings returns standings that know no node. They have late called when answers have come that no pass has waited for.
func newStandings(rules ownership.Rules, source *inventory.Inventory, believe time.Duration, late func()) *standings {
	return &standings{
		rules: rules, believe: believe, answers: map[identity]answer{},
		questions: source.Questions(func(ctx context.Context, nodes []*corev1.Node, yield inventory.Yield) {
			source.LookupEach(ctx, nodes, believe, yield)
		}, inventory.QuestionOptions{Late: late}),
	}
}

func identityOf(node *corev1.Node) identity { return identity{node.UID, node.Spec.ProviderID} }

// of returns all nodes with their standing. Nodes whose provider ID does not tell are looked up in the cloud, as far as they
// have pod CIDRs; those that wait for their initialisation are left to that. With an error the result holds: what could not be
// found out is undecided, and so is what the cloud takes its time to say.
func (s *standings) of(ctx context.Context, nodes []*corev1.Node, now time.Time) ([]member, error) {
	err := s.ask(ctx, s.doubtful(nodes, now), now)
	members := make([]member, 0, len(nodes))
	for _, node := range nodes {
		members = append(members, member{node: node, standing: s.standing(node, now)})
	}
	return members, err
}

// standing returns what is known of a node now.
func (s *standings) standing(node *corev1.Node, now time.Time) standing {
	switch s.rules.Judge(node, s.evidence.Proven).Verdict {
	case ownership.Ours:
		return ours
	case ownership.Foreign:
		return others
	}
	if answer, found := s.answer(node, now); found && answer.ours {
		return ours
	}
	return undecided
}

// answer returns what the cloud has said about a node.
func (s *standings) answer(node *corev1.Node, now time.Time) (answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.answers[identityOf(node)]
	return known, found && now.Sub(known.at) < s.believe
}

// doubtful returns the nodes about which the cloud has to be asked, and forgets the answers for nodes that are gone.
func (s *standings) doubtful(nodes []*corev1.Node, now time.Time) (doubtful []*corev1.Node) {
	kept := map[identity]answer{}
	for _, node := range nodes {
		if s.rules.Judge(node, s.evidence.Proven).Verdict != ownership.Unproven || len(node.Spec.PodCIDRs) == 0 || awaitsProviderID(node) {
			continue
		}
		if known, found := s.answer(node, now); found {
			kept[identityOf(node)] = known
		} else {
			doubtful = append(doubtful, node)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = kept
	return doubtful
}

// awaitsProviderID reports whether a node waits for its initialisation, which will give it a provider ID.
func awaitsProviderID(node *corev1.Node) bool {
	return node.Spec.ProviderID == "" && ownership.Uninitialized(node)
}

// ask looks nodes up and keeps what follows from the answers.
func (s *standings) ask(ctx context.Context, nodes []*corev1.Node, now time.Time) error {
	var errs []error
	for _, said := range s.questions.Ask(ctx, nodes) {
		node := said.Node
		judgement := s.rules.Judge(node, s.evidence.Proven)
		if said.Err != nil && !judgement.NamesUnknownProvider() {
			errs = append(errs, fmt.Errorf("asking the cloud whose node %q is: %w", node.Name, said.Err))
			continue
		}
		observed := said.Observation
		proven := said.Err == nil && observed.Status == inventory.Found && judgement.ProvenBy(observed.Answered)
		if proven && observed.Answered == node.Spec.ProviderID {
			s.evidence.Record(observed.Answered)
		}
		s.mu.Lock()
		s.answers[identityOf(node)] = answer{ours: proven, at: now}
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}
