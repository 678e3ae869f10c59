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
type standings struct{ members *instances.Members }

// newStandings returns standings that know no node. They have late called when answers have come that no pass has waited for.
// Believe is how long an answer of the cloud counts that does not prove a node to be ours.
func newStandings(owners *instances.Owners, believe time.Duration, late func()) *standings {
	return &standings{owners.Members(instances.MemberOptions{Believe: believe, LongestPause: believe, Late: late})}
}

// of returns all nodes with their standing. Nodes whose provider ID does not tell are looked up in the cloud, as far as they
// have pod CIDRs; those that wait for their initialization are left to that. With an error the result holds: nodes about which
// nothing could be found out keep their standing, and so do those for which the cloud takes its time. An error about a node whose
// provider ID names another provider is what is to be expected.
func (s *standings) of(ctx context.Context, nodes []corev1.Node, now time.Time) ([]member, error) {
	s.members.Observe(nodes)
	var routable []*corev1.Node
	for i := range nodes {
		if node := &nodes[i]; len(node.Spec.PodCIDRs) > 0 && !awaitsProviderID(node) {
			routable = append(routable, node)
		}
	}
	var errs []error
	for _, failed := range s.members.Ask(ctx, s.members.Doubtful(routable, now), now) {
		if !s.members.Decide(failed.Node).NamesUnknownProvider() {
			errs = append(errs, fmt.Errorf("asking the cloud whose node %q is: %w", failed.Node.Name, failed.Err))
		}
	}
	members := make([]member, 0, len(nodes))
	for i := range nodes {
		members = append(members, member{node: &nodes[i], standing: s.standing(&nodes[i])})
	}
	return members, errors.Join(errs...)
}

// standing returns what is known of a node now.
func (s *standings) standing(node *corev1.Node) standing {
	switch s.members.Of(node) {
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
