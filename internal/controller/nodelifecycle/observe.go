package nodelifecycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// maxBackoff bounds the pause after which a node is asked for again that may be shut down at any time, or for which the cloud returns errors: as
	// long as a cloud that fails all calls is left alone at most.
	maxBackoff = cloud.MaxGroupPause
	// longestRound is how long a round waits for all of its witnesses before others are asked for.
	longestRound = time.Minute
)

// observer asks the cloud on behalf of passes, and waits for no node for long: what was not answered in one pass is there for the
// next.
type observer struct {
	inventory *instances.Inventory
	settings  Settings
	// states are the questions about nodes that are due, exists those about witnesses.
	states, exists *instances.Questions
	// since is when the nodes that are due have come to be.
	since map[types.UID]time.Time
	// failing are the errors of the nodes that are due and were not answered for when they were last asked for.
	failing map[types.UID]nodeError
	polls   polls
	// round is when witnesses were last asked for.
	round time.Time
	// waiting is called with the nodes that wait for the cloud to be asked, and why.
	waiting func(nodes []*corev1.Node, reason string)
}

// nodeError is why the cloud did not answer for a node.
type nodeError struct {
	node string
	err  error
}

// observation is what the cloud answered in one pass.
type observation struct {
	said answers
	// answered is how many answers there were, and failed how many of them were errors.
	answered, failed int
	// unanswered are the nodes that were asked for one by one and for which an error came.
	unanswered []instances.Answer
	// err is the error about the nodes whose last answer was an error. Without such nodes it is nil.
	err error
}

// newObserver returns an observer that takes the word that an instance is there from answers up to maxAge old, and calls late
// when answers have come that no pass has waited for. Waiting is called with nodes that wait for the cloud to be asked.
func newObserver(source *instances.Inventory, settings Settings, maxAge time.Duration, late func(),
	waiting func(nodes []*corev1.Node, reason string)) *observer {
	options := instances.QuestionOptions{Late: late, LongestPause: maxBackoff}
	return &observer{
		polls: polls{}, waiting: waiting, inventory: source, settings: settings, since: map[types.UID]time.Time{}, failing: map[types.UID]nodeError{},
		states: source.Questions(func(ctx context.Context, nodes []*corev1.Node, yield instances.Yield) {
			source.StateEach(ctx, nodes, maxAge, yield)
		}, options),
		exists: source.Questions(func(ctx context.Context, nodes []*corev1.Node, yield instances.Yield) {
			source.ExistsEach(ctx, nodes, 0, yield)
		}, options),
	}
}

// observe asks about the nodes that are due. Where the cloud can list, the ready nodes come with the same listing, and show
// whether it is to be believed. Facts and objects are the same nodes, in the same order.
func (o *observer) observe(ctx context.Context, nodes []facts, objects []*corev1.Node, now time.Time) observation {
	seen := observation{said: answers{}}
	var due, ready []*corev1.Node
	since := map[types.UID]time.Time{}
	for i, node := range nodes {
		switch {
		case node.due(o.settings, now):
			due = append(due, objects[i])
			since[node.uid] = now
			if before, known := o.since[node.uid]; known {
				since[node.uid] = before
			}
		case node.owner == ours && node.ready:
			ready = append(ready, objects[i])
		}
	}
	o.since = since
	maps.DeleteFunc(o.failing, func(uid types.UID, _ nodeError) bool { return since[uid].IsZero() })
	o.polls.forget(since)
	due = o.dueNow(due, now)
	ctx = cloud.WithNotice(ctx, func(reason string) { o.waiting(due, reason) })
	ctx = cloud.WithPriority(ctx, cloud.PriorityDeletion)
	for _, answer := range o.states.Ask(ctx, due) {
		o.take(&seen, answer)
		o.polls.note(answer, now)
	}
	if o.inventory.Lists() {
		o.compare(&seen, ready)
	} else {
		o.hear(ctx, &seen, nil)
	}
	seen.err = o.failure()
	return seen
}

// affirm asks for the instances of a few ready nodes, where the cloud cannot list: one round for all denials of those seconds. The
// answers that do not come soon are in the next observation.
func (o *observer) affirm(ctx context.Context, seen *observation, nodes []facts, objects []*corev1.Node, now time.Time) {
	if o.inventory.Lists() || now.Before(o.nextRound()) || o.exists.Open() > 0 && now.Sub(o.round) < longestRound {
		return
	}
	byUID := make(map[types.UID]*corev1.Node, len(objects))
	for _, object := range objects {
		byUID[object.UID] = object
	}
	ready := witnesses(nodes)
	if answered := slices.DeleteFunc(slices.Clone(ready), func(node facts) bool { return !o.exists.Answered(byUID[node.uid]) }); len(answered) > 0 {
		ready = answered
	}
	var bearing []*corev1.Node
	for _, witness := range spread(ready) {
		bearing = append(bearing, byUID[witness.uid])
	}
	o.round = now
	o.hear(cloud.WithPriority(ctx, cloud.PriorityDeletion), seen, bearing)
}

// nextRound is when witnesses may be asked for again.
func (o *observer) nextRound() time.Time {
	return o.round.Add(max(o.settings.MinDenialTime, shortPause))
}

// hear asks for witnesses, and takes the answers that have come.
func (o *observer) hear(ctx context.Context, seen *observation, bearing []*corev1.Node) {
	for _, answer := range o.exists.Ask(ctx, bearing) {
		seen.note(answer)
		if said, known := seen.said[answer.Node.UID]; known {
			said.witness = true
			seen.said[answer.Node.UID] = said
		}
	}
}

// dueNow returns those of the nodes whose turn it is. A listing answers for all of them.
func (o *observer) dueNow(due []*corev1.Node, now time.Time) []*corev1.Node {
	o.polls.rest(due)
	resting := func(node *corev1.Node) bool { return !o.polls.due(node, now) }
	if o.inventory.Lists() && slices.ContainsFunc(due, func(node *corev1.Node) bool { return !resting(node) }) {
		return due
	}
	return slices.DeleteFunc(due, resting)
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
				seen.said[node.UID] = answerOf(said)
			}
		})
	}
}

// take takes an answer about a node that was due when it was asked for. A denial from before the node came to be due the last time
// says nothing, since it was ready since.
func (o *observer) take(seen *observation, answer instances.Answer) {
	uid := answer.Node.UID
	since, due := o.since[uid]
	if due && answer.Err == nil && answer.Observation.Status == instances.NotFound && answer.Observation.At.Before(since) {
		return
	}
	seen.note(answer)
	delete(o.failing, uid)
	if answer.Err != nil && due {
		o.failing[uid] = nodeError{answer.Node.Name, answer.Err}
		if !o.inventory.Lists() {
			seen.unanswered = append(seen.unanswered, answer)
		}
	}
}

// failure returns the error of one of the nodes for which the cloud does not answer, always the same one while it goes on.
func (o *observer) failure() error {
	if len(o.failing) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Values(o.failing)), func(a, b nodeError) int { return cmp.Compare(a.node, b.node) })
	return fmt.Errorf("%d nodes, of which node %q: %w", len(o.failing), first.node, first.err)
}

// note takes one answer. An error says nothing, unless it is only about the state of an instance that exists.
func (o *observation) note(answer instances.Answer) {
	o.answered++
	said := answer.Observation
	uid := answer.Node.UID
	switch said.Status {
	case instances.Found:
		o.said[uid] = answerOf(said)
	case instances.NotFound:
		if answer.Err == nil {
			o.said[uid] = answerOf(said)
		}
	case instances.NoStatement:
	}
	if answer.Err != nil || said.Status == instances.NoStatement {
		o.failed++
	}
}

func answerOf(said instances.Observation) answer {
	return answer{exists: said.Status == instances.Found, state: said.State, listed: said.Listed >= 0, at: said.At}
}

// pauseShare is the share of the time for which a node has been as it is that passes before the cloud is asked for it again.
const pauseShare = 4

// pauseEach is the time for each machine that is off between two questions about one of them: 20 questions a second.
const pauseEach = 50 * time.Millisecond

// polls says when nodes are asked for: the less often, the longer nothing has changed, and a node whose instance is denied when that
// decides about it.
type polls map[types.UID]*poll

// poll is what is known of one node.
type poll struct {
	// shows is what of the node makes a new question necessary when it changes.
	shows  shown
	exists bool
	state  provider.InstanceState
	// since is when the node, or what the cloud says of it, last changed, asked when it was last asked for, and next when it is again.
	since, asked, next time.Time
}

// shown is what a node shows of its kubelet, and of what others want with it.
type shown struct {
	providerID              string
	ready                   corev1.ConditionStatus
	reportedAt, turned      time.Time
	announced, acknowledged bool
}

func shownBy(node *corev1.Node) shown {
	facts := factsOf(node, ours)
	is := shown{providerID: node.Spec.ProviderID, announced: facts.announced, acknowledged: facts.acknowledged}
	if _, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); ready != nil {
		is.ready, is.reportedAt, is.turned = ready.Status, ready.LastHeartbeatTime.Time, ready.LastTransitionTime.Time
	}
	return is
}

// due reports whether a node is to be asked for.
func (p polls) due(node *corev1.Node, now time.Time) bool {
	known := p[node.UID]
	return known == nil || known.shows != shownBy(node) || !now.Before(known.next)
}

// rest has those of the nodes rest that have the shutdown taint, the longer, the more they are: of these, nothing is left to learn but that an
// instance is gone.
func (p polls) rest(nodes []*corev1.Node) {
	var off []*poll
	for _, node := range nodes {
		if known := p[node.UID]; known != nil && known.state == provider.InstanceStopped && slices.ContainsFunc(node.Spec.Taints, isShutdownTaint) {
			off = append(off, known)
		}
	}
	pause := min(maxBackoff, time.Duration(len(off))*pauseEach)
	for _, known := range off {
		known.next = kit.Later(known.next, known.asked.Add(pause))
	}
}

// note takes notice of an answer. A node for which there is none is asked for in every pass.
func (p polls) note(answer instances.Answer, now time.Time) {
	uid, said := answer.Node.UID, answer.Observation
	if answer.Err != nil || said.Status == instances.NoStatement {
		delete(p, uid)
		return
	}
	known, shows, exists := p[uid], shownBy(answer.Node), said.Status == instances.Found
	if known == nil || known.shows != shows || known.exists != exists || known.state != said.State {
		known = &poll{shows: shows, exists: exists, state: said.State, since: now}
		p[uid] = known
	}
	longest := maxBackoff
	if said.State == provider.InstanceStopped {
		longest = kit.LongestRetry // when it runs again, its kubelet says so
	}
	known.asked, known.next = now, now.Add(min(longest, now.Sub(known.since)/pauseShare))
}

// await has nodes whose instances are denied asked for when the plan needs another observation of them.
func (p polls) await(due map[types.UID]time.Time) {
	for uid, at := range due {
		if known := p[uid]; known != nil {
			known.next = at
		}
	}
}

// forget drops nodes that are no longer asked for.
func (p polls) forget(due map[types.UID]time.Time) {
	maps.DeleteFunc(p, func(uid types.UID, _ *poll) bool { return due[uid].IsZero() })
}
