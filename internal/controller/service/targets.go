package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/internal/ownership"
)

const (
	// DefaultTargetQuiet is how long the set of nodes must have been still before load balancers hear of a change.
	DefaultTargetQuiet = 2 * time.Second
	// DefaultTargetDelay is how long load balancers wait at most for the set of nodes to be still.
	DefaultTargetDelay = 15 * time.Second

	// provenFor is how long the cloud's word that a node is not one of its own is believed.
	provenFor = 10 * time.Minute
	// longestPause bounds the pause after which the cloud is asked again about a node for which it returns errors.
	longestPause = time.Minute
)

// targets keeps the set of nodes that is behind every load balancer. There are two: the latest, which follows every change at
// once, and the settled one, which follows a burst of changes when it is over. Load balancers are compared with the settled
// one, so that a burst is one change for each of them.
type targets struct {
	reader    client.Reader
	inventory *inventory.Inventory
	rules     ownership.Rules
	evidence  *ownership.Evidence
	quiet     time.Duration
	delay     time.Duration
	// retry is the pause after the set could not be determined.
	retry   time.Duration
	metrics *metrics
	// changed has room for one: something has changed since it was last received from.
	changed chan struct{}
	// questions are those about whose the nodes are. Only settle asks.
	questions *inventory.Questions
	// began is when settle was first called.
	began time.Time

	mu         sync.Mutex
	generation uint64 // grows with every change that may matter
	memo       *targetSet
	memoOf     uint64 // the generation that memo was built from
	settled    *targetSet
	problem    error               // why the nodes could not be settled the last time
	unsure     bool                // there are nodes about which the cloud has not answered
	failures   map[types.UID]error // why it has not, if it has returned an error
	verdicts   map[types.UID]verdict
}

// verdict is what the cloud said of a node whose owner cannot be told by its provider ID.
type verdict struct {
	providerID string
	ours       bool
	at         time.Time
}

// errNoTargetsYet says that no set of targets has been determined so far.
var errNoTargetsYet = errors.New("the nodes are being looked up")

// start has the nodes asked about through an inventory. What the cloud answers late is a change like any other.
func (t *targets) start(source *inventory.Inventory) {
	t.inventory, t.failures = source, map[types.UID]error{}
	t.questions = source.Questions(func(ctx context.Context, nodes []*corev1.Node, yield inventory.Yield) {
		source.LookupEach(ctx, nodes, provenFor, yield)
	}, inventory.QuestionOptions{Late: t.note, LongestPause: longestPause})
}

// note takes notice of a node that came, went or changed, or of an answer about one.
func (t *targets) note() {
	t.mu.Lock()
	t.generation++
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// matters reports whether a change of a node can change the set. Heartbeats do not.
func (t *targets) matters(before, after *corev1.Node) bool {
	return before.UID != after.UID || standingOf(before) != standingOf(after) || identityOf(before) != identityOf(after) ||
		t.judge(before).Verdict != t.judge(after).Verdict
}

func (t *targets) judge(node *corev1.Node) ownership.Judgement {
	return t.rules.Judge(node, t.evidence.Proven)
}

// sets returns the settled set and the latest one. It does not wait for the cloud, which run does: a node that came after the
// nodes were last settled, and of which the cloud has yet to say whose it is, is in neither. The error is a *targetsError.
func (t *targets) sets(ctx context.Context) (settled, latest *targetSet, err error) {
	t.mu.Lock()
	settled, problem := t.settled, t.problem
	t.mu.Unlock()
	switch {
	case settled == nil && problem != nil:
		return nil, nil, &targetsError{fmt.Errorf("%w: %v", errNoTargetsYet, problem)} // whose error it is makes no difference
	case settled == nil:
		return nil, nil, &targetsError{errNoTargetsYet}
	}
	if latest, err = t.latest(ctx, false); err != nil {
		return nil, nil, &targetsError{err}
	}
	return settled, latest, nil
}

// known returns the set of the nodes whose owner is known, before there is one that has settled. The error is a *targetsError.
func (t *targets) known(ctx context.Context) (*targetSet, error) {
	set, err := t.latest(ctx, false)
	if err != nil {
		return nil, &targetsError{err}
	}
	return set, nil
}

// latest returns the set of this moment, and asks the cloud for it if need be. A node about which the cloud has not answered is in
// it if it is in the settled set: it holds up no other node, and no load balancer loses it for want of an answer.
func (t *targets) latest(ctx context.Context, ask bool) (*targetSet, error) {
	t.mu.Lock()
	generation, memo := t.generation, t.memo
	fresh := memo != nil && t.memoOf == generation
	t.mu.Unlock()
	if fresh {
		return memo, nil
	}
	var list corev1.NodeList
	if err := t.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // the nodes are only read
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes, complete, err := t.ours(ctx, list.Items, ask)
	if err != nil {
		return nil, err
	}
	set := targetsOf(nodes)
	if !complete {
		return set, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.memo == nil || t.memoOf <= generation {
		t.memo, t.memoOf = set, generation
	}
	return set, nil
}

// ours returns the nodes that are not foreign, and whether it is known of all nodes whose they are. If ask is set, the cloud is asked
// about those of which it is not.
func (t *targets) ours(ctx context.Context, all []corev1.Node, ask bool) (ours []*corev1.Node, complete bool, err error) {
	var unproven []*corev1.Node
	for i := range all {
		node := &all[i]
		if standingOf(node) == outside {
			continue
		}
		switch t.judge(node).Verdict {
		case ownership.Ours:
			ours = append(ours, node)
		case ownership.Unproven:
			unproven = append(unproven, node)
		case ownership.Foreign:
		}
	}
	if t.inventory.Supported() != nil {
		// A plugin that cannot be asked for instances gets all nodes that are not foreign for certain, as in the reference.
		return append(ours, unproven...), true, nil
	}
	proven, unknown := t.recall(unproven, time.Now())
	if ask && len(unknown) > 0 {
		t.prove(ctx, unknown)
		proven, unknown = t.recall(unproven, time.Now())
	}
	kept, err := t.keep(unknown, ask)
	return slices.Concat(ours, proven, kept), len(unknown) == 0, err
}

// prove asks the cloud whose nodes these are, and keeps what it says.
func (t *targets) prove(ctx context.Context, nodes []*corev1.Node) {
	for _, answer := range t.questions.Ask(ctx, nodes) {
		node, seen := answer.Node, answer.Observation
		if answer.Err != nil {
			t.mu.Lock()
			t.failures[node.UID] = fmt.Errorf("whether node %q is one of this cloud's: %w", node.Name, answer.Err)
			t.mu.Unlock()
			continue
		}
		judgement := t.judge(node)
		said := verdict{node.Spec.ProviderID, seen.Status == inventory.Found && judgement.ProvenBy(seen.Answered), time.Now()}
		if said.ours && seen.Answered == node.Spec.ProviderID {
			t.evidence.Record(seen.Answered)
		}
		t.mu.Lock()
		t.verdicts[node.UID] = said
		t.mu.Unlock()
	}
}

// keep returns those of the nodes about which the cloud has not answered that are targets all the same: those that are already. Before
// any set has settled that is not known, and the set waits for the answers: as long as load balancers wait for the nodes to be
// still, and for a cloud that can list as long as its listing takes. After that, nodes whose provider ID does not name another
// provider are taken for targets, as in the reference: to leave one out might take it out of every load balancer.
func (t *targets) keep(unknown []*corev1.Node, ask bool) (kept []*corev1.Node, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ask {
		t.forget(unknown)
	}
	switch {
	case len(unknown) == 0 || t.settled == nil && !ask:
		return nil, nil
	case t.settled == nil && (t.inventory.Lists() || time.Since(t.began) < t.delay):
		return nil, cmp.Or(t.failure(), errNoTargetsYet)
	}
	for _, node := range unknown {
		if t.settled != nil && t.settled.has(node) || t.settled == nil && !t.judge(node).NamesUnknownProvider() {
			kept = append(kept, node)
		}
	}
	return kept, nil
}

// forget drops the errors of all other nodes than these. The lock is held.
func (t *targets) forget(unknown []*corev1.Node) {
	t.unsure = len(unknown) > 0
	before := t.failures
	t.failures = map[types.UID]error{}
	for _, node := range unknown {
		if err := before[node.UID]; err != nil {
			t.failures[node.UID] = err
		}
	}
}

// failure returns why the cloud has not answered about a node, nil if it only takes its time. The lock is held.
func (t *targets) failure() error {
	for _, err := range t.failures {
		return err
	}
	return nil
}

// recall returns the nodes that the cloud has said to be its own, and those about which it has to be asked. What was said of
// nodes that are not among these is forgotten.
func (t *targets) recall(nodes []*corev1.Node, now time.Time) (proven, unknown []*corev1.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := map[types.UID]verdict{}
	for _, node := range nodes {
		said, found := t.verdicts[node.UID]
		if !found || said.providerID != node.Spec.ProviderID || (!said.ours && now.Sub(said.at) >= provenFor) {
			unknown = append(unknown, node)
			continue
		}
		kept[node.UID] = said
		if said.ours {
			proven = append(proven, node)
		}
	}
	t.verdicts = kept
	return proven, unknown
}

// settle makes the latest set the settled one.
func (t *targets) settle(ctx context.Context) error {
	if t.began.IsZero() {
		t.began = time.Now()
	}
	latest, err := t.latest(ctx, true)
	t.mu.Lock()
	before := t.settled
	t.problem = nil
	switch {
	case err == nil:
		t.settled = latest
	case !errors.Is(err, errNoTargetsYet):
		t.problem = err
	}
	t.mu.Unlock()
	if err != nil {
		return err
	}
	t.metrics.targets.Set(float64(len(latest.members)))
	if before == nil {
		return nil
	}
	if added, removed := difference(before, latest); len(added)+len(removed) > 0 {
		logf.FromContext(ctx).Info("The set of targets has changed", "targets", len(latest.members),
			"added", len(added), "removed", len(removed), "addedNodes", shortList(added), "removedNodes", shortList(removed))
	}
	return nil
}

// run follows the nodes until ctx ends, and calls back whenever they have settled.
func (t *targets) run(ctx context.Context, settled func()) {
	failing := false
	for {
		unsettled := t.settle(ctx)
		err := unsettled
		if err == nil {
			err = t.partial()
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoTargetsYet): // the cloud takes its time, which is no error yet
		case err != nil && !failing:
			logf.FromContext(ctx).Error(err, "Could not determine the set of targets; trying again", "retryAfter", t.retry.String())
			failing = true
		case err == nil && failing:
			logf.FromContext(ctx).Info("The set of targets could be determined again")
			failing = false
		}
		if unsettled == nil {
			settled()
		}
		if !t.await(ctx, unsettled != nil) {
			return
		}
	}
}

// partial returns why the settled set is not known for all nodes, nil if it is or if the cloud only takes its time.
func (t *targets) partial() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure(); err != nil {
		return fmt.Errorf("%d nodes keep their place: %w", len(t.failures), err)
	}
	return nil
}

// await returns when it is time to settle again: after a change that was followed by a quiet time or that is old enough, and
// when there is a question to ask again. It returns false when ctx ends.
func (t *targets) await(ctx context.Context, unsettled bool) bool {
	var again <-chan time.Time // nil, so that nothing happens while nothing changes
	switch {
	case unsettled || t.isUnsure():
		again = time.After(t.retry)
	case t.doubts():
		again = time.After(provenFor)
	}
	select {
	case <-t.changed:
	case <-again:
		t.expire()
		return true
	case <-ctx.Done():
		return false
	}
	oldEnough := time.After(t.delay)
	for {
		select {
		case <-t.changed:
		case <-time.After(t.quiet):
			return true
		case <-oldEnough:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

func (t *targets) isUnsure() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unsure
}

// doubts reports whether there are nodes that the cloud does not know. It may get to know them.
func (t *targets) doubts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, said := range t.verdicts {
		if !said.ours {
			return true
		}
	}
	return false
}

// expire has the next set built anew, with the cloud asked again about the nodes that it did not know.
func (t *targets) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
}

// difference returns the names that are in one set and not in the other, and those whose identity differs in both.
func difference(before, after *targetSet) (added, removed []string) {
	for name, identity := range after.members {
		if has, found := before.members[name]; !found || has != identity {
			added = append(added, name)
		}
	}
	for name, identity := range before.members {
		if has, found := after.members[name]; !found || has != identity {
			removed = append(removed, name)
		}
	}
	slices.Sort(added)
	slices.Sort(removed)
	return added, removed
}
