package route

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// standings finds out which nodes take part in the routes.
type standings struct {
	memberships *ownership.Memberships
	questions   *instances.Questions
}

// newStandings returns standings that know no node. They have late called when answers have come that no pass has waited for.
// Believe is how long an answer of the cloud counts that does not prove a node to be ours.
func newStandings(rules ownership.Rules, source *instances.Inventory, believe time.Duration, late func()) *standings {
	return &standings{
		memberships: ownership.NewMemberships(rules, &ownership.Evidence{}, believe),
		questions: source.Questions(func(ctx context.Context, nodes []*corev1.Node, yield instances.Yield) {
			source.LookupEach(ctx, nodes, believe, yield)
		}, instances.QuestionOptions{Late: late, LongestPause: believe}),
	}
}

// of returns all nodes with their standing. Nodes whose provider ID does not tell are looked up in the cloud, as far as they
// have pod CIDRs; those that wait for their initialization are left to that. With an error the result holds: nodes about which
// nothing could be found out keep their standing, and so do those for which the cloud takes its time.
func (s *standings) of(ctx context.Context, nodes []corev1.Node, now time.Time) ([]member, error) {
	s.memberships.See(nodes)
	var routable []*corev1.Node
	for i := range nodes {
		if node := &nodes[i]; len(node.Spec.PodCIDRs) > 0 && !awaitsProviderID(node) {
			routable = append(routable, node)
		}
	}
	err := s.ask(ctx, s.memberships.Doubtful(routable, now), now)
	members := make([]member, 0, len(nodes))
	for i := range nodes {
		members = append(members, member{node: &nodes[i], standing: s.standing(&nodes[i])})
	}
	return members, err
}

// standing returns what is known of a node now.
func (s *standings) standing(node *corev1.Node) standing {
	switch s.memberships.Of(node) {
	case ownership.Member:
		return ours
	case ownership.Presumed:
		return presumed
	case ownership.Outsider:
		return others
	default:
		return undecided
	}
}

// awaitsProviderID reports whether a node waits for its initialization, which will give it a provider ID.
func awaitsProviderID(node *corev1.Node) bool {
	return node.Spec.ProviderID == "" && ownership.Uninitialized(node)
}

// ask looks nodes up and keeps what follows from the answers. An error about a node whose provider ID names another provider is
// what is to be expected.
func (s *standings) ask(ctx context.Context, nodes []*corev1.Node, now time.Time) error {
	var errs []error
	for _, said := range s.questions.Ask(ctx, nodes) {
		node, seen := said.Node, said.Observation
		if said.Err == nil {
			s.memberships.Hear(node, ownership.Answer{
				Found: seen.Status == instances.Found, Denied: seen.Status == instances.NotFound, ProviderID: seen.Answered,
			}, now)
			continue
		}
		s.memberships.Miss(node)
		if !s.memberships.Decide(node).NamesUnknownProvider() {
			errs = append(errs, fmt.Errorf("asking the cloud whose node %q is: %w", node.Name, said.Err))
		}
	}
	return errors.Join(errs...)
}
