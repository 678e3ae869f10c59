package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const (
	// DefaultTargetQuiet is how long the set of nodes must have been still before load balancers are updated after a change.
	DefaultTargetQuiet = 2 * time.Second
	// DefaultTargetDelay is how long load balancers wait at most for the set of nodes to be still.
	DefaultTargetDelay = 15 * time.Second
)

// targets keeps the set of nodes that is behind every load balancer. There are two sets. The latest follows every change at once, and the settled one
// follows a burst of changes when it is over. The controller compares load balancers with the settled set, and each load balancer changes once for a
// burst.
//
// It asks the cloud nothing: as in the reference a node is a target unless something is known that says otherwise.
type targets struct {
	reader  client.Reader
	owners  ownership.Rules
	quiet   time.Duration
	delay   time.Duration
	metrics *metrics
	// labels is provider.Capabilities.SelectsByLabels.
	labels func() bool
	// changed has room for one: something has changed since it was last received from.
	changed chan struct{}

	mu         sync.Mutex
	generation uint64 // grows with every change that may matter
	memo       *targetSet
	memoOf     uint64 // the generation that memo was built from
	settled    *targetSet
	// strayed says that a pass has got a set that had not settled, and may not: load balancers are compared when it would have.
	strayed bool
	// left says that a target may have left since takeLeft last said so.
	left bool
	// joined are the nodes that were seen to be initialized, with a network.
	joined map[types.UID]bool
	// selects says that labels of nodes matter: a Service was seen that selects its targets by them.
	selects bool
	// handed are the nodes of the set handedOf as calls get them, while memory allows. Calls with one list share its copies, see the package cloud.
	handed   weak.Pointer[[]*corev1.Node]
	handedOf *targetSet
}

// note takes notice of a node that came, went or changed, and whether it may have been a target and is none now.
func (t *targets) note(left bool) {
	t.mu.Lock()
	t.generation++
	t.left = t.left || left
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// updated takes notice of a node that changed. What changes no set is for the plugin to read when it gets the nodes the next time.
func (t *targets) updated(before, after *corev1.Node) {
	switch {
	case t.matters(before, after):
		t.note(before.UID != after.UID || roleOf(before) != outside && roleOf(after) == outside || t.owners.Decide(after).Owner == ownership.Foreign)
	case !maps.Equal(before.Labels, after.Labels), !maps.Equal(before.Annotations, after.Annotations):
		t.expire()
	}
}

// expire has the next set built anew.
func (t *targets) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
}

// matters reports whether a change of a node can change the set. Heartbeats do not.
func (t *targets) matters(before, after *corev1.Node) bool {
	return before.UID != after.UID || roleOf(before) != roleOf(after) || identityOf(before) != identityOf(after) ||
		wasInitialized(before) != wasInitialized(after) || hasNetwork(before) != hasNetwork(after) ||
		t.owners.Decide(before).Owner != t.owners.Decide(after).Owner || t.selecting() && !maps.Equal(before.Labels, after.Labels)
}

// selecting reports whether labels of nodes matter.
func (t *targets) selecting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.selects
}

// byLabels reports whether the plugin selects the targets of a Service by labels of nodes: always, or because an annotation says so. Plugins have names
// of their own for it, such as loadbalancer.openstack.org/node-selector and service.beta.kubernetes.io/aws-load-balancer-target-node-labels.
func (t *targets) byLabels(service *corev1.Service) bool {
	if t.labels != nil && t.labels() {
		return true
	}
	for key := range service.Annotations {
		if strings.HasSuffix(key, "node-selector") || strings.HasSuffix(key, "node-labels") {
			return true
		}
	}
	return false
}

// of returns a set for a Service: where the plugin selects nodes by their labels, these are part of a node's identity.
func (t *targets) of(service *corev1.Service, set *targetSet) *targetSet {
	if t.byLabels(service) {
		return set.labelled()
	}
	return set
}

// sets returns the settled set and the latest one for a Service; nil: without labels. The first set is settled at once: there is no other that load
// balancers could have.
func (t *targets) sets(ctx context.Context, service *corev1.Service) (settled, latest *targetSet, err error) {
	byLabels := service != nil && t.byLabels(service)
	t.mu.Lock()
	if byLabels && !t.selects {
		t.selects = true
		t.generation++ // labels that changed before did not matter
	}
	t.mu.Unlock()
	if latest, err = t.latest(ctx); err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settled == nil {
		t.settled = latest
	}
	settled = t.settled
	if byLabels {
		settled, latest = settled.labelled(), latest.labelled()
	}
	t.strayed = t.strayed || settled != latest && !settled.same(latest)
	return settled, latest, nil
}

// latest returns the set of this moment.
func (t *targets) latest(ctx context.Context) (*targetSet, error) {
	t.mu.Lock()
	generation, memo := t.generation, t.memo
	fresh := memo != nil && t.memoOf == generation
	t.mu.Unlock()
	if fresh {
		return memo, nil
	}
	all, err := t.all(ctx)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	set := targetsOf(t.eligible(all))
	set.digest = sync.OnceValue(func() string { return digestOf(set.members) })
	set.labelled = sync.OnceValue(set.withLabels)
	if t.memo == nil || t.memoOf <= generation {
		t.memo, t.memoOf = set, generation
	}
	return set, nil
}

// all returns all nodes. They are only read.
func (t *targets) all(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := t.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return list.Items, nil
}

// handOver returns the latest set for a Service, and its nodes for a call, in its order, as they are now or were for an earlier call: a plugin that looks
// at them itself shall find what the set says. One that is gone since, or whose name another node has, is as it was last known.
func (t *targets) handOver(ctx context.Context, service *corev1.Service) (set *targetSet, nodes []*corev1.Node, err error) {
	if _, set, err = t.sets(ctx, service); err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	handed := t.handed.Value()
	same := t.handedOf == set
	t.mu.Unlock()
	if handed != nil && same {
		return set, *handed, nil
	}
	all, err := t.all(ctx)
	if err != nil {
		return nil, nil, err
	}
	found := make(map[string]*corev1.Node, len(all))
	for i := range all {
		found[all[i].Name] = &all[i]
	}
	nodes = make([]*corev1.Node, len(set.nodes))
	for i, member := range set.nodes {
		if nodes[i] = found[member.name]; nodes[i] == nil || nodes[i].UID != member.uid {
			nodes[i] = member.node()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handed, t.handedOf = weak.Make(&nodes), set
	return set, nodes, nil
}

// eligible returns the nodes that may be targets. These are not foreign, and were initialized and had a network at some time. A taint that comes back
// or a lost network does not undo that. The lock is held.
func (t *targets) eligible(all []corev1.Node) (nodes []*corev1.Node) {
	joined := make(map[types.UID]bool, len(all))
	for i := range all {
		node := &all[i]
		if !(wasInitialized(node) && hasNetwork(node)) && !t.joined[node.UID] {
			continue
		}
		joined[node.UID] = true
		if t.owners.Decide(node).Owner != ownership.Foreign {
			nodes = append(nodes, node)
		}
	}
	t.joined = joined
	return nodes
}

// settle makes the latest set the settled one. It reports whether a pass has got one that had not settled since the last time.
func (t *targets) settle(ctx context.Context) (strayed bool, err error) {
	latest, err := t.latest(ctx)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	before := t.settled
	t.settled, strayed, t.strayed = latest, t.strayed, false
	t.mu.Unlock()
	t.metrics.targets.Set(float64(len(latest.members)))
	if before == nil {
		return strayed, nil
	}
	if added, removed := before.lacks(latest), latest.lacks(before); len(added)+len(removed) > 0 {
		logf.FromContext(ctx).Info("The set of targets has changed", "targets", len(latest.members),
			"added", len(added), "removed", len(removed), "addedNodes", shortList(added), "removedNodes", shortList(removed))
	}
	return strayed, nil
}

// run follows the nodes until ctx ends, and calls back whenever another set has settled.
func (t *targets) run(ctx context.Context, settled func()) {
	var failures kit.FailureLog
	var last *targetSet
	for {
		strayed, err := t.settle(ctx)
		failures.Note(ctx, "Could not determine the set of targets", err)
		if set := t.settledSet(); set != nil && (last == nil || strayed || !last.same(set) || t.selecting() && !last.labelled().same(set.labelled())) {
			last = set
			settled()
		}
		if !t.await(ctx, err != nil) {
			return
		}
	}
}

func (t *targets) settledSet() *targetSet {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled
}

// await returns when it is time to settle again: after changes. It returns false when ctx ends.
func (t *targets) await(ctx context.Context, failed bool) bool {
	var again <-chan time.Time // nil blocks: nothing happens while nothing changes
	if failed {
		timer := time.NewTimer(DefaultFirstRetry)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-t.changed:
		return t.gather(ctx)
	case <-again:
		t.expire()
		return true
	case <-ctx.Done():
		return false
	}
}

// gather merges changes that follow each other closely into one. New targets may wait until the nodes are still; removals wait a moment: nodes that leave
// together are one change. Each look for targets that were lost goes through all nodes, which leave by the hundred. It returns false when ctx ends.
func (t *targets) gather(ctx context.Context) bool {
	gathering, leaving := kit.Debounce{Quiet: t.quiet, Most: t.delay}, kit.Debounce{Quiet: kit.Moment, Most: kit.Moment}
	var all, removals kit.Burst
	var looked time.Time
	all.Add(time.Now())
	for due, losing := t.takeLeft(), false; ; {
		now := time.Now()
		wait := looked.Add(kit.Moment / 4).Sub(now)
		if due && wait <= 0 {
			if losing = t.loses(ctx); losing {
				removals.Add(now)
			}
			looked, due = now, false
		}
		left := gathering.Left(all, now)
		if losing {
			left = min(left, leaving.Left(removals, now))
		}
		looks := due && wait < left
		if looks {
			left = wait
		}
		timer := time.NewTimer(left)
		select {
		case <-t.changed:
			all.Add(time.Now())
			due = t.takeLeft() || due
		case <-timer.C:
			if !looks {
				return true
			}
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// takeLeft reports whether a target may have left since the last time.
func (t *targets) takeLeft() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.left
	t.left = false
	return left
}

// loses reports whether the latest set lacks a target of the settled one that is to be removed, or cannot be determined: settle says why.
func (t *targets) loses(ctx context.Context) bool {
	latest, err := t.latest(ctx)
	settled := t.settledSet()
	return err != nil || settled != nil && settled.loses(latest)
}

// same reports whether each load balancer that is served by one of the sets is served by the other.
func (t *targetSet) same(other *targetSet) bool {
	return maps.Equal(t.members, other.members) && maps.Equal(t.leaving, other.leaving)
}

// lacks returns the names of another set that this one has not, or with another identity.
func (t *targetSet) lacks(other *targetSet) (names []string) {
	for name, identity := range other.members {
		if has, found := t.members[name]; !found || has != identity {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// shortList shows the first few of many names.
func shortList(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
