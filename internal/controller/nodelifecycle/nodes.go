package nodelifecycle

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const (
	// proofAge is how old an answer may be that proves a node to be ours. It outlasts the node controller's refresh.
	proofAge = time.Hour
	// proofInterval is how often the plugin is asked to prove one node.
	proofInterval = time.Minute
)

// ownershipCache knows whose nodes are. Nodes whose provider ID does not say so are ours once the plugin has answered for them: mostly
// to the node controller, whose answers are known without a call.
type ownershipCache struct {
	owners    *instances.Owners
	questions *instances.Questions
	// asked is when the plugin was last asked to prove a node.
	asked map[types.UID]time.Time
	// learned is when learn was last called, and inDoubt how many nodes it left in doubt.
	learned time.Time
	inDoubt int
}

// newOwnershipCache returns a cache that has asked for no node. It has late called when answers have come that no pass has waited for.
func newOwnershipCache(owners *instances.Owners, source *instances.Inventory, late func()) *ownershipCache {
	return &ownershipCache{
		owners: owners, asked: map[types.UID]time.Time{},
		questions: source.Questions(func(ctx context.Context, nodes []*corev1.Node, yield instances.Yield) {
			source.LookupEach(ctx, nodes, proofInterval, yield)
		}, instances.QuestionOptions{Late: late}),
	}
}

// owner returns what a node is to us. One without provider ID is awaited if it asks for its initialization. If it does not,
// it was initialized by nobody, and belongs to no cloud.
func (p *ownershipCache) owner(node *corev1.Node) owner {
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
func (p *ownershipCache) due(now time.Time) bool {
	return p.inDoubt > 0 && now.Sub(p.learned) >= proofInterval
}

// learn looks for proof of nodes that are in doubt: in what is known, and for those that are not ready by asking. An answer that
// takes its time is there for a later pass.
func (p *ownershipCache) learn(ctx context.Context, nodes []*corev1.Node, now time.Time) {
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

// nodeState is what the controller knows of its own writes that the cache may not show yet.
type nodeState struct {
	// written are our last writes.
	written map[types.UID]ownWrite
	// failing are the kinds of action that failed when they were last tried.
	failing map[types.UID]map[actionKind]failure
	// heartbeats are the reports of kubelets that are not ready.
	heartbeats map[types.UID]heartbeat
}

// ownWrite is a write of ours.
type ownWrite struct {
	// version is the resource version that it made, empty if the node was deleted.
	version string
	at      time.Time
}

// failure is a number of failures in a row, and until when no further try is made.
type failure struct {
	count int
	until time.Time
}

// writeBackoff is the pause of a write that fails for its node, during which the node's other writes and other nodes have their turn.
var writeBackoff = kit.Backoff{First: DefaultPeriod, Longest: time.Minute}

func newNodeState() *nodeState {
	return &nodeState{written: map[types.UID]ownWrite{}, failing: map[types.UID]map[actionKind]failure{}, heartbeats: map[types.UID]heartbeat{}}
}

// paused returns the kinds of action that are not to be tried for a node now.
func (m *nodeState) paused(node types.UID, now time.Time) (kinds pauses) {
	for kind, failed := range m.failing[node] {
		kinds[kind] = now.Before(failed.until)
	}
	return kinds
}

// heartbeatOf returns what we have seen of the reports of a node's kubelet, with what the node shows now.
func (m *nodeState) heartbeatOf(node facts, now time.Time) heartbeat {
	if node.ready || node.reportedAt.IsZero() {
		delete(m.heartbeats, node.uid)
		return heartbeat{}
	}
	last, known := m.heartbeats[node.uid]
	if !known || !last.reportedAt.Equal(node.reportedAt) {
		last = heartbeat{reportedAt: node.reportedAt, at: now, changed: known}
		m.heartbeats[node.uid] = last
	}
	return last
}

// stale reports whether a node from the cache is older than our own last write to it, of up to kit.MaxCacheLag ago.
func (m *nodeState) stale(node *corev1.Node, now time.Time) bool {
	last, known := m.written[node.UID]
	return known && now.Sub(last.at) < kit.MaxCacheLag && (last.version == "" || kit.Older(node.ResourceVersion, last.version))
}

// note remembers what became of an action. It reports whether a failure is news.
func (m *nodeState) note(done result, now time.Time) (news bool) {
	uid, kind := done.action.node.uid, done.action.kind
	switch done.outcome {
	case kit.Written:
		delete(m.failing[uid], kind)
		if done.action.kind == deleteNode || done.resourceVersion != "" {
			m.written[uid] = ownWrite{version: done.resourceVersion, at: now}
		}
	case kit.Refused, kit.Uncertain:
		if m.failing[uid] == nil {
			m.failing[uid] = map[actionKind]failure{}
		}
		before := m.failing[uid][kind].count
		m.failing[uid][kind] = failure{count: before + 1, until: now.Add(writeBackoff.After(before, done.err))}
		return before == 0
	case kit.Outdated, kit.NotTried:
	}
	return false
}

// forget drops the nodes that are there no more.
func (m *nodeState) forget(current map[types.UID]bool) {
	maps.DeleteFunc(m.written, func(uid types.UID, _ ownWrite) bool { return !current[uid] })
	maps.DeleteFunc(m.failing, func(uid types.UID, _ map[actionKind]failure) bool { return !current[uid] })
	maps.DeleteFunc(m.heartbeats, func(uid types.UID, _ heartbeat) bool { return !current[uid] })
}
