// Package refusals leaves nodes out of load balancers that the cloud refuses as targets and has no instance of.
//
// See ADR 28.
package refusals

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/instances"
)

// Refusals are the nodes that are no targets because the cloud has refused them and says, when it is asked, that they have no instance.
// Most clouds refuse a whole change because of one such target, so that it would hold back all others until its Node is deleted.
type Refusals struct {
	// asking is held while the questions are put, which must not overlap.
	asking    sync.Mutex
	questions *instances.Questions
	// again is how long an answer that there is no instance is good for.
	again time.Duration

	mu sync.Mutex
	// suspects have been named by an error, and the cloud has not said yet whether they have instances.
	suspects map[types.UID]bool
	// gone are the provider IDs of those that have none, and when the cloud last said so.
	gone map[types.UID]missingInstance
}

// missingInstance is an instance that the cloud does not know.
type missingInstance struct {
	providerID string
	at         time.Time
}

// New returns refusals of no node. Late is called when there is an answer that nobody waits for any more. Again is how long an answer that
// there is no instance is good for, and the longest pause between questions that fail.
func New(inventory *instances.Inventory, again time.Duration, late func()) *Refusals {
	ask := func(ctx context.Context, nodes []*corev1.Node, yield instances.Yield) {
		inventory.LookupEach(ctx, nodes, 0, yield)
	}
	return &Refusals{
		again:     again,
		questions: inventory.Questions(ask, instances.QuestionOptions{Late: late, LongestPause: again}),
		suspects:  map[types.UID]bool{}, gone: map[types.UID]missingInstance{},
	}
}

// Suspect asks the cloud about nodes that an error has named. What is not answered soon is found by a check.
func (r *Refusals) Suspect(ctx context.Context, nodes []*corev1.Node) {
	r.mu.Lock()
	for _, node := range nodes {
		r.suspects[node.UID] = true
	}
	r.mu.Unlock()
	r.ask(ctx, nodes)
}

// Check asks the cloud about the suspects among all nodes, and again about those whose instances were gone a while ago.
func (r *Refusals) Check(ctx context.Context, nodes []*corev1.Node) {
	if due := r.due(nodes, time.Now()); len(due) > 0 || r.Pending() {
		r.ask(ctx, due)
	}
}

// ask asks the cloud about nodes. A node for which there is only an error stays what it was.
func (r *Refusals) ask(ctx context.Context, nodes []*corev1.Node) {
	r.asking.Lock()
	defer r.asking.Unlock()
	answers := r.questions.Ask(ctx, nodes)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, answer := range answers {
		if answer.Err != nil {
			continue
		}
		delete(r.suspects, answer.Node.UID)
		if answer.Observation.Status == instances.NotFound {
			if _, known := r.gone[answer.Node.UID]; !known {
				logf.FromContext(ctx).Info("Left a node out of the load balancers: the cloud refuses it as a target, and has no instance of it",
					"node", answer.Node.Name, "providerID", answer.Node.Spec.ProviderID)
			}
			r.gone[answer.Node.UID] = missingInstance{answer.Node.Spec.ProviderID, now}
		} else {
			delete(r.gone, answer.Node.UID)
		}
	}
}

// due returns the nodes to ask about, and forgets those that do not exist any more or have another instance.
func (r *Refusals) due(nodes []*corev1.Node, now time.Time) (due []*corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	suspects, gone := map[types.UID]bool{}, map[types.UID]missingInstance{}
	for _, node := range nodes {
		known, missing := r.missing(node)
		if missing {
			gone[node.UID] = known
		}
		if r.suspects[node.UID] {
			suspects[node.UID] = true
		}
		if r.suspects[node.UID] || missing && now.Sub(known.at) >= r.again {
			due = append(due, node)
		}
	}
	r.suspects, r.gone = suspects, gone
	return due
}

// missing returns what is known of a node whose instance is gone. The lock is held.
func (r *Refusals) missing(node *corev1.Node) (known missingInstance, missing bool) {
	known, missing = r.gone[node.UID]
	return known, missing && known.providerID == node.Spec.ProviderID
}

// Pending reports whether there is anything to ask again about.
func (r *Refusals) Pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.suspects)+len(r.gone) > 0
}

// Without returns the nodes that are not gone. If that is said of more than half, the cloud is not believed, and all stay.
func (r *Refusals) Without(nodes []*corev1.Node) []*corev1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.gone) == 0 {
		return nodes
	}
	left := make([]*corev1.Node, 0, len(nodes))
	for _, node := range nodes {
		if _, missing := r.missing(node); !missing {
			left = append(left, node)
		}
	}
	if 2*len(left) < len(nodes) {
		return nodes
	}
	return left
}
