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
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// longestPause bounds the pause after which a node is asked for again for which the cloud returns errors: as long as a cloud
	// that fails all calls is left alone at most.
	longestPause = 30 * time.Second
	// mostWitnesses is how many ready nodes are asked for because the cloud did not answer for the ones before. If it answers for
	// none of them, the denials stand alone, and the nodes are held.
	mostWitnesses = 3 * maxWitnesses
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
	pending pending
	polls   polls
	// waiting is called with the nodes that wait for the cloud to be asked, and why.
	waiting func(nodes []*corev1.Node, reason string)
}

// pending are denials for which no witness has answered yet.
type pending struct {
	denied answers
	// since is when the first witness was asked for, asked how many there were, and failed for how many there was an error.
	since         time.Time
	asked, failed int
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
	// pending says that denials wait for witnesses who have just been asked for.
	pending bool
	// err is that of the nodes whose last answer was an error, or nil if there are no such nodes.
	err error
}

// newObserver returns an observer that takes the word that an instance is there from answers up to maxAge old, and calls late
// when answers have come that no pass has waited for. Waiting is called with nodes that wait for the cloud to be asked.
func newObserver(source *instances.Inventory, settings Settings, maxAge time.Duration, late func(),
	waiting func(nodes []*corev1.Node, reason string)) *observer {
	options := instances.QuestionOptions{Late: late, LongestPause: longestPause}
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
// whether it is to be believed; where not, a few of them are asked for if nothing else confirms what was said.
// Facts and objects are the same nodes, in the same order.
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
		o.askWitnesses(ctx, &seen, nodes, objects, now)
	}
	seen.err = o.failure()
	return seen
}

// dueNow returns those of the nodes whose turn it is. A listing answers for all of them.
func (o *observer) dueNow(due []*corev1.Node, now time.Time) []*corev1.Node {
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
		if !answer.exists && answer.at.After(denied) {
			denied = answer.at
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
// says nothing, since it was ready since; nor does one from when the node was young.
func (o *observer) take(seen *observation, answer instances.Answer) {
	uid := answer.Node.UID
	since, due := o.since[uid]
	if due && answer.Err == nil && answer.Observation.Status == instances.NotFound &&
		(answer.Observation.At.Before(since) || factsOf(answer.Node, ours).young(o.settings, answer.Observation.At)) {
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

// askWitnesses has witnesses asked for if all that was said is that instances are gone. Until one of them has answered, the denials
// wait for it.
func (o *observer) askWitnesses(ctx context.Context, seen *observation, nodes []facts, objects []*corev1.Node, now time.Time) {
	for uid, answer := range o.pending.denied {
		if _, newer := seen.said[uid]; !newer && !o.since[uid].IsZero() {
			seen.said[uid] = answer
		}
	}
	if !onlyDenials(seen.said) {
		o.pending = pending{}
	}
	bearing := o.openWitnesses(nodes, objects, seen.said)
	if o.pending.asked == 0 {
		o.pending.since = now
	}
	o.pending.asked += len(bearing)
	denied, answered := maps.Clone(seen.said), false
	for _, answer := range o.exists.Ask(ctx, bearing) {
		switch {
		case answer.Observation.At.Before(o.pending.since) && answer.Err == nil, o.pending.asked == 0: // of an earlier round
		case answer.Err != nil:
			o.pending.failed++
			seen.note(answer)
		default:
			answered = true
			seen.note(answer)
		}
	}
	if answered || o.pending.failed >= o.pending.asked && (len(bearing) == 0 || o.pending.asked >= mostWitnesses) {
		o.pending = pending{}
		return
	}
	o.pending.denied, seen.said, seen.pending = denied, answers{}, len(bearing) > 0
}

// openWitnesses returns the nodes to ask for as witnesses now: none of those for which there is a question open.
func (o *observer) openWitnesses(nodes []facts, objects []*corev1.Node, said answers) (bearing []*corev1.Node) {
	if o.pending.asked >= mostWitnesses {
		return nil
	}
	byUID := make(map[types.UID]*corev1.Node, len(objects))
	for _, object := range objects {
		byUID[object.UID] = object
	}
	for _, witness := range witnesses(nodes, said, func(node facts) bool { return o.exists.Answered(byUID[node.uid]) }) {
		if object := byUID[witness.uid]; o.exists.Askable(object) {
			bearing = append(bearing, object)
		}
	}
	return bearing
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
	return answer{exists: said.Status == instances.Found, state: said.State, contradicted: said.Contradicted, at: said.At}
}

const (
	// pauseShare is the share of the time for which a node has been as it is that passes before the cloud is asked for it again.
	pauseShare = 4
	// longestStopped bounds the pause for a node whose instance is shut down: when it runs again, its kubelet says so. longestOther
	// bounds it for others, which may be shut down at any time.
	longestStopped = 2 * time.Minute
	longestOther   = 30 * time.Second
)

// polls says when nodes are asked for whose instances exist: the less often, the longer nothing has changed.
type polls map[types.UID]*poll

// poll is what is known of one node.
type poll struct {
	// shows is what of the node makes a new question necessary when it changes.
	shows shown
	state provider.InstanceState
	// since is when the node, or what the cloud says of it, last changed, and next when it is asked for again.
	since, next time.Time
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

// note takes notice of an answer. A node that is not said to be there is asked for in every pass.
func (p polls) note(answer instances.Answer, now time.Time) {
	uid, said := answer.Node.UID, answer.Observation
	if answer.Err != nil || said.Status != instances.Found {
		delete(p, uid)
		return
	}
	known, shows := p[uid], shownBy(answer.Node)
	if known == nil || known.shows != shows || known.state != said.State {
		known = &poll{shows: shows, state: said.State, since: now}
		p[uid] = known
	}
	longest := longestOther
	if said.State == provider.InstanceStopped {
		longest = longestStopped
	}
	known.next = now.Add(min(longest, now.Sub(known.since)/pauseShare))
}

// forget drops nodes that are not asked for any more.
func (p polls) forget(due map[types.UID]time.Time) {
	maps.DeleteFunc(p, func(uid types.UID, _ *poll) bool { return due[uid].IsZero() })
}
