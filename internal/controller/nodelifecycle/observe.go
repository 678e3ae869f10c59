package nodelifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/nodeview"
)

// observer asks the cloud on behalf of passes, by a view of the nodes that says when.
type observer struct {
	inventory *instances.Inventory
	view      *nodeview.View
	settings  Settings
	// maxAge is how old the answer may be that an instance is there.
	maxAge time.Duration
	// round is when witnesses were last asked for.
	round time.Time
	// waiting is called with the nodes that wait for the cloud to be asked, and why.
	waiting func(nodes []*corev1.Node, reason string)
}

// observation is what the cloud answered in one pass.
type observation struct {
	said answers
	// answered is how many answers there were, and failed how many of them were errors.
	answered, failed int
	// unanswered are the nodes that were asked for one by one and for which an error came.
	unanswered []nodeview.Row
	// err is the error about the nodes whose last answer was an error. Without such nodes it is nil.
	err error
}

// newObserver returns an observer that calls late when answers have come that no pass has waited for.
func newObserver(source *instances.Inventory, settings Settings, maxAge time.Duration, late func(),
	waiting func(nodes []*corev1.Node, reason string)) *observer {
	view := nodeview.New(nodeview.Options{Inventory: source, Shows: shownBy, Subscriber: late})
	return &observer{inventory: source, view: view, settings: settings, maxAge: maxAge, waiting: waiting}
}

// observe asks about the nodes that are due. Where the cloud can list, the ready nodes come with the same listing, and show
// whether it is to be believed. Facts and objects are the same nodes, in the same order.
func (o *observer) observe(ctx context.Context, nodes []facts, objects []*corev1.Node, now time.Time) observation {
	seen := observation{said: answers{}}
	var due, ready []*corev1.Node
	for i, node := range nodes {
		switch {
		case node.due(o.settings, now):
			due = append(due, objects[i])
		case node.owner == ours && node.ready:
			ready = append(ready, objects[i])
		}
	}
	turn := o.view.Want(due, now)
	asking := admission.WithPriority(ctx, admission.PriorityDeletion, func(reason string) { o.waiting(turn, reason) })
	seen.take(o.view.Ask(asking, turn, o.maxAge))
	if o.inventory.Lists() {
		o.compare(&seen, ready)
		seen.unanswered = nil
	}
	seen.err = o.failure(due)
	return seen
}

// affirm asks for the instances of a few ready nodes, where the cloud cannot list: one round for all denials of those seconds. The
// answers that do not come soon are in the next observation.
func (o *observer) affirm(ctx context.Context, seen *observation, nodes []facts, objects []*corev1.Node, now time.Time) {
	if o.inventory.Lists() || now.Before(o.nextRound()) {
		return
	}
	ready := witnesses(nodes)
	if answered := slices.DeleteFunc(slices.Clone(ready), func(node facts) bool {
		row := o.view.Get(node.uid)
		return row.Open || row.Err != nil
	}); len(answered) > 0 {
		ready = answered
	}
	var bearing []*corev1.Node
	for _, witness := range spread(ready) {
		i := slices.IndexFunc(objects, func(object *corev1.Node) bool { return object.UID == witness.uid })
		bearing = append(bearing, objects[i])
	}
	o.round = now
	seen.take(o.view.Ask(admission.WithPriority(ctx, admission.PriorityDeletion), bearing, 0))
}

// nextRound is when witnesses may be asked for again.
func (o *observer) nextRound() time.Time {
	return o.round.Add(max(o.settings.MinDenialTime, shortPause))
}

// compare adds what the listing that denied instances says of ready nodes.
func (o *observer) compare(seen *observation, ready []*corev1.Node) {
	var denied time.Time
	for _, answer := range seen.said {
		if !answer.exists {
			denied = kit.Later(denied, answer.at)
		}
	}
	if !denied.IsZero() {
		o.inventory.Listed(ready, denied, func(node *corev1.Node, said instances.Observation, err error) {
			if err == nil {
				seen.said[node.UID] = answerOf(node, said)
			}
		})
	}
}

// failure returns the error of one of the nodes that are due and for which the cloud does not answer, always the same one while it goes on.
func (o *observer) failure(due []*corev1.Node) error {
	count, name, err := 0, "", error(nil)
	for _, node := range due {
		if row := o.view.Get(node.UID); row.Err != nil {
			if count++; err == nil || cmp.Less(node.Name, name) {
				name, err = node.Name, row.Err
			}
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%d nodes, of which node %q: %w", count, name, err)
}

// take takes what the cloud has said of nodes. An error says nothing, unless it is only about the state of an instance that exists.
func (o *observation) take(rows []nodeview.Row) {
	for _, row := range rows {
		said := row.Observation
		if said.Status == instances.Found || said.Status == instances.NotFound && row.Err == nil {
			o.said[row.Node.UID] = answerOf(row.Node, said)
		}
		o.answered++
		if row.Err != nil || said.Status == instances.NoStatement {
			o.failed++
		}
		if row.Err != nil && !ownership.Ready(row.Node) {
			o.unanswered = append(o.unanswered, row)
		}
	}
}

// answerOf returns what was said of a node, as it was when it was asked for.
func answerOf(node *corev1.Node, said instances.Observation) answer {
	return answer{
		exists: said.Status == instances.Found, state: said.State, listed: said.Listed >= 0, witness: ownership.Ready(node), at: said.At,
	}
}

// shown is what a node shows of its kubelet, and of what others want with it: a change makes a new question necessary.
type shown struct {
	providerID              string
	ready                   corev1.ConditionStatus
	reportedAt, turned      time.Time
	announced, acknowledged bool
}

func shownBy(node *corev1.Node) any {
	facts := factsOf(node, ours)
	is := shown{providerID: node.Spec.ProviderID, announced: facts.announced, acknowledged: facts.acknowledged}
	if _, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); ready != nil {
		is.ready, is.reportedAt, is.turned = ready.Status, ready.LastHeartbeatTime.Time, ready.LastTransitionTime.Time
	}
	return is
}
