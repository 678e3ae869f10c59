package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/service/refusals"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const (
	// DefaultTargetQuiet is how long the set of nodes must have been still before load balancers are updated after a change.
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
	inventory *instances.Inventory
	quiet     time.Duration
	delay     time.Duration
	// retry is the pause after the set could not be determined.
	retry   time.Duration
	metrics *metrics
	// changed has room for one: something has changed since it was last received from.
	changed chan struct{}
	// members says which nodes take part. Only settle asks.
	members *instances.Members
	// refusals says which of those the cloud refuses because they have no instances.
	refusals *refusals.Refusals
	// began is when settle was first called.
	began time.Time

	mu         sync.Mutex
	generation uint64 // grows with every change that may matter
	memo       *targetSet
	memoOf     uint64 // the generation that memo was built from
	complete   bool   // memo is known for all nodes
	settled    *targetSet
	problem    error               // why the nodes could not be settled the last time
	unsure     bool                // there are nodes about which the cloud has not answered
	failures   map[types.UID]error // why it has not, if it has returned an error
}

// errNoTargetsYet says that no set of targets has been determined so far.
var errNoTargetsYet = errors.New("the nodes are being looked up")

// start has the nodes looked up in an inventory. A late answer of the cloud is a change like any other.
func (t *targets) start(source *instances.Inventory, owners *instances.Owners) {
	t.inventory, t.failures = source, map[types.UID]error{}
	t.members = owners.Members(instances.MemberOptions{Believe: provenFor, LongestPause: longestPause, Late: t.note})
	t.refusals = refusals.New(source, longestPause, t.note)
}

// suspect asks the cloud about nodes that it refuses as targets, before another load balancer is written with them. It does not wait for long.
func (t *targets) suspect(ctx context.Context, nodes []*corev1.Node) {
	if len(nodes) == 0 || t.inventory.Supported() != nil {
		return
	}
	t.refusals.Suspect(ctx, nodes)
	t.note()
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
	return before.UID != after.UID || roleOf(before) != roleOf(after) || identityOf(before) != identityOf(after) ||
		t.members.Decide(before).Owner != t.members.Decide(after).Owner
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
// it if it was before: it holds up no other node, and no load balancer loses it for want of an answer.
func (t *targets) latest(ctx context.Context, ask bool) (*targetSet, error) {
	t.mu.Lock()
	generation, memo := t.generation, t.memo
	fresh := memo != nil && t.memoOf == generation && (!ask || t.complete && !t.refusals.Pending())
	t.mu.Unlock()
	if fresh {
		return memo, nil
	}
	var list corev1.NodeList
	if err := t.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // the nodes are only read
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes, complete, err := t.taking(ctx, list.Items, ask)
	if ask {
		generation = t.answered(generation)
	}
	if err != nil {
		return nil, err
	}
	set := targetsOf(nodes)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.memo == nil || t.memoOf <= generation {
		t.memo, t.memoOf, t.complete = set, generation, complete
	}
	return set, nil
}

// answered says that the cloud has been asked, so that a set that was built meanwhile may lack what it said. It returns the generation
// of the set that was asked for, which had generation when that began.
func (t *targets) answered(generation uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	only := t.generation == generation // else a node has changed since
	if t.generation++; only {
		return t.generation
	}
	return generation
}

// taking returns the nodes that take part, and whether all is known by which that is decided. If ask is set, the cloud is asked
// about the nodes in doubt.
func (t *targets) taking(ctx context.Context, all []corev1.Node, ask bool) (taking []*corev1.Node, complete bool, err error) {
	t.members.Observe(all)
	nodes, named := t.eligible(all)
	if t.inventory.Supported() != nil {
		// A plugin that cannot be asked for instances gets all nodes that are not foreign for certain, as in the reference.
		return nodes, true, nil
	}
	doubtful := t.members.Doubtful(named, time.Now())
	if ask && len(doubtful) > 0 {
		t.prove(ctx, doubtful)
		doubtful = t.members.Doubtful(named, time.Now())
	}
	if ask {
		if err := t.wait(doubtful); err != nil {
			return nil, false, err
		}
		t.refusals.Check(ctx, named)
	}
	for _, node := range nodes {
		if m := t.members.Of(node); m == ownership.Member || m == ownership.Presumed {
			taking = append(taking, node)
		}
	}
	return t.refusals.Without(taking), len(doubtful) == 0, nil
}

// eligible returns the nodes that are not foreign for certain and may be targets, and those of them that have a provider ID. What
// the cloud says of a name decides nothing.
func (t *targets) eligible(all []corev1.Node) (nodes, named []*corev1.Node) {
	for i := range all {
		node := &all[i]
		if roleOf(node) == outside || t.members.Decide(node).Owner == ownership.Foreign {
			continue
		}
		nodes = append(nodes, node)
		if node.Spec.ProviderID != "" {
			named = append(named, node)
		}
	}
	return nodes, named
}

// prove asks the cloud whose nodes these are, and keeps what it says.
func (t *targets) prove(ctx context.Context, nodes []*corev1.Node) {
	failed := t.members.Ask(ctx, nodes, time.Now())
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, answer := range failed {
		t.failures[answer.Node.UID] = fmt.Errorf("whether node %q is one of this cloud's: %w", answer.Node.Name, answer.Err)
	}
}

// wait returns an error while the first set waits for answers about nodes in doubt: no longer than load balancers wait for the
// nodes to be still, or, for a cloud that can list, until its listing has ended. No set after that waits.
func (t *targets) wait(doubtful []*corev1.Node) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(doubtful)
	if t.settled != nil {
		return nil
	}
	patient := time.Since(t.began) < t.delay
	for _, node := range doubtful {
		listing := t.inventory.Lists() && t.failures[node.UID] == nil
		if t.members.Awaited(node) && (patient || listing) {
			return cmp.Or(t.failure(), errNoTargetsYet)
		}
	}
	for _, node := range doubtful {
		t.members.GiveUp(node)
	}
	return nil
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

// run follows the nodes until ctx ends, and calls back whenever they have settled, with whether that set differs from the last one: while
// the cloud does not answer about some node, the same set settles again and again.
func (t *targets) run(ctx context.Context, settled func(changed bool)) {
	var failures kit.FailureLog
	var last *targetSet
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
		default:
			failures.Note(ctx, "Could not determine the set of targets", err, "retryAfter", t.retry.String())
		}
		if unsettled == nil {
			before := last
			last = t.settledSet()
			settled(before == nil || !before.same(last))
		}
		if !t.await(ctx, unsettled != nil) {
			return
		}
	}
}

func (t *targets) settledSet() *targetSet {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled
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
	case t.refusals.Pending():
		again = time.After(longestPause)
	case t.members.Denies():
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
	return kit.Debounce{Quiet: t.quiet, Most: t.delay}.Await(ctx, t.changed, 0)
}

func (t *targets) isUnsure() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unsure
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

// shortList shows the first few of many names.
func shortList(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
