package nodelifecycle

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// ownerOf returns what a node is to us. A node without a provider ID is awaited if it asks for its initialization. Otherwise no cloud controller
// manager initialized it, and it belongs to no cloud.
func ownerOf(rules ownership.Rules, node *corev1.Node) owner {
	switch rules.Decide(node).Owner {
	case ownership.Ours:
		return ours
	case ownership.Unproven:
		if ownership.Uninitialized(node) {
			return awaited
		}
	case ownership.Foreign:
	}
	return foreign
}

// nodeState is what the controller knows of its own writes that the cache may not show yet.
type nodeState struct {
	// written are our last writes.
	written map[types.UID]kit.OwnWrite
	// failing are the kinds of action that failed when they were last tried.
	failing map[types.UID]map[actionKind]kit.Row
	// heartbeats are the reports of kubelets that are not ready.
	heartbeats map[types.UID]heartbeat
}

// writeBackoff is the pause of a write that fails for its node, during which the node's other writes and other nodes have their turn.
var writeBackoff = kit.Backoff{First: DefaultPeriod, Longest: time.Minute}

func newNodeState() *nodeState {
	return &nodeState{written: map[types.UID]kit.OwnWrite{}, failing: map[types.UID]map[actionKind]kit.Row{}, heartbeats: map[types.UID]heartbeat{}}
}

// paused returns the kinds of action that are not to be tried for a node now.
func (m *nodeState) paused(node types.UID, now time.Time) (kinds pauses) {
	for kind, failed := range m.failing[node] {
		kinds[kind] = failed.Rests(now)
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

// stale reports whether a node from the cache is older than our own last write to it.
func (m *nodeState) stale(node *corev1.Node, now time.Time) bool {
	return m.written[node.UID].Hides(node.ResourceVersion, now)
}

// note remembers what became of an action. It reports whether a failure is news.
func (m *nodeState) note(done result, now time.Time) (news bool) {
	uid, kind := done.action.node.uid, done.action.kind
	switch done.outcome {
	case kit.Written:
		delete(m.failing[uid], kind)
		if done.action.kind == deleteNode || done.resourceVersion != "" {
			m.written[uid] = kit.OwnWrite{Version: done.resourceVersion, At: now}
		}
	case kit.Refused, kit.Uncertain:
		if m.failing[uid] == nil {
			m.failing[uid] = map[actionKind]kit.Row{}
		}
		before := m.failing[uid][kind]
		m.failing[uid][kind] = before.Failed(now, writeBackoff, done.err)
		return before.Count == 0
	case kit.Outdated, kit.NotTried:
	}
	return false
}

// forget drops the nodes that are there no more.
func (m *nodeState) forget(current map[types.UID]bool) {
	maps.DeleteFunc(m.written, func(uid types.UID, _ kit.OwnWrite) bool { return !current[uid] })
	maps.DeleteFunc(m.failing, func(uid types.UID, _ map[actionKind]kit.Row) bool { return !current[uid] })
	maps.DeleteFunc(m.heartbeats, func(uid types.UID, _ heartbeat) bool { return !current[uid] })
}
