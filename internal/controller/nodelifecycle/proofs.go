package nodelifecycle

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const (
	// proofAge is how old an answer may be that proves a node to be ours. It outlasts the node controller's refresh.
	proofAge = time.Hour
	// proofInterval is how often the plugin is asked to prove one node.
	proofInterval = time.Minute
)

// proofs judge whose nodes are. Nodes whose provider ID does not say so are ours once the plugin has answered for them: mostly
// to the node controller, whose answers are known without a call.
type proofs struct {
	owners    *instances.Owners
	questions *instances.Questions
	// asked is when the plugin was last asked to prove a node.
	asked map[types.UID]time.Time
	// learned is when learn was last called, and inDoubt how many nodes it left in doubt.
	learned time.Time
	inDoubt int
}

// newProofs returns proofs that have asked for no node. They have late called when answers have come that no pass has waited for.
func newProofs(owners *instances.Owners, source *instances.Inventory, late func()) *proofs {
	return &proofs{
		owners: owners, asked: map[types.UID]time.Time{},
		questions: source.Questions(func(ctx context.Context, nodes []*corev1.Node, yield instances.Yield) {
			source.LookupEach(ctx, nodes, proofInterval, yield)
		}, instances.QuestionOptions{Late: late}),
	}
}

// standing returns what a node is to us. One without provider ID is awaited if it asks for its initialization. If it does not,
// it was initialized by nobody, and belongs to no cloud.
func (p *proofs) standing(node *corev1.Node) standing {
	switch {
	case p.owners.Ours(node):
		return ours
	case node.Spec.ProviderID == "" && ownership.Uninitialized(node) && p.owners.Decide(node).Owner != ownership.Foreign:
		return awaited
	default:
		return foreign
	}
}

// due reports whether it is time to learn although nothing happens to any node. What proves a node in doubt is an answer to the node
// controller, which the next one replaces: when the node is not ready any more, its instance may be gone.
func (p *proofs) due(now time.Time) bool { return p.inDoubt > 0 && now.Sub(p.learned) >= proofInterval }

// learn looks for proof of nodes that are in doubt: in what is known, and for those that are not ready by asking. An answer that
// takes its time is there for a later pass.
func (p *proofs) learn(ctx context.Context, nodes []*corev1.Node, now time.Time) {
	current := map[types.UID]bool{}
	p.learned, p.inDoubt = now, 0
	var ask []*corev1.Node
	for _, node := range nodes {
		current[node.UID] = true
		unproven := p.owners.Decide(node).Owner == ownership.Unproven && node.Spec.ProviderID != "" && !p.owners.Ours(node)
		if !unproven || p.owners.Recall(node, proofAge) {
			continue
		}
		p.inDoubt++
		if !factsOf(node, ours).ready && now.Sub(p.asked[node.UID]) >= proofInterval {
			p.asked[node.UID] = now
			ask = append(ask, node)
		}
	}
	for _, answer := range p.questions.Ask(cloud.WithPriority(ctx, cloud.PriorityDeletion), ask) {
		if answer.Err == nil && current[answer.Node.UID] {
			p.owners.Record(answer.Node, answer.Observation)
		}
	}
	p.owners.Forget(func(uid types.UID) bool { return current[uid] })
	maps.DeleteFunc(p.asked, func(uid types.UID, _ time.Time) bool { return !current[uid] })
}
