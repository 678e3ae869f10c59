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

// nodeState is what the controller knows of its own writes that the cache may not show yet, and of kubelets, by the nodes' UIDs.
type nodeState map[types.UID]*nodeRow

type nodeRow struct {
	// written is our last write.
	written kit.OwnWrite
	// failing are the kinds of action that failed when they were last tried.
	failing [deleteNode + 1]kit.Row
	// released is why the node was held before its last release, and releasedAt when that was.
	released   HoldReason
	releasedAt time.Time
	// heartbeat is the last report of a kubelet that is not ready.
	heartbeat heartbeat
}

// writeBackoff is the pause of a write that fails for its node, during which the node's other writes and other nodes have their turn.
var writeBackoff = kit.Backoff{First: DefaultPeriod, Longest: time.Minute}

// of returns the row of a node.
func (m nodeState) of(node types.UID) *nodeRow {
	row := m[node]
	if row == nil {
		row = &nodeRow{}
		m[node] = row
	}
	return row
}

// apply adds to the facts of a node what is known of it beside what it shows now.
func (m nodeState) apply(f *facts, now time.Time) {
	row, known := m[f.uid]
	if f.ready || f.reportedAt.IsZero() {
		if known {
			row.heartbeat = heartbeat{}
		}
	} else {
		row, known = m.of(f.uid), true
		if !row.heartbeat.reportedAt.Equal(f.reportedAt) {
			row.heartbeat = heartbeat{reportedAt: f.reportedAt, at: now, changed: !row.heartbeat.at.IsZero()}
		}
		f.heartbeat = row.heartbeat
	}
	if !known {
		return
	}
	f.excluded = f.excluded || row.written.Hides(f.resourceVersion, now)
	if now.Sub(row.releasedAt) < kit.EventInterval {
		f.released = row.released
	}
	for kind, failed := range row.failing {
		f.paused[kind] = failed.Rests(now)
	}
}

// note remembers what became of an action. It reports whether a failure is news.
func (m nodeState) note(done result, now time.Time) (news bool) {
	row, kind := m.of(done.action.node.uid), done.action.kind
	switch done.outcome {
	case kit.Written:
		row.failing[kind] = kit.Row{}
		if kind == clearHeld {
			row.released, row.releasedAt = done.action.node.heldFor, now
		}
		if kind == deleteNode || done.resourceVersion != "" {
			row.written = kit.OwnWrite{Version: done.resourceVersion, At: now}
		}
	case kit.Refused, kit.Uncertain:
		before := row.failing[kind]
		row.failing[kind] = before.Failed(now, writeBackoff, done.err)
		return before.Count == 0
	case kit.Outdated, kit.NotTried:
	}
	return false
}

// forget drops the nodes that are there no more.
func (m nodeState) forget(current map[types.UID]bool) {
	maps.DeleteFunc(m, func(uid types.UID, _ *nodeRow) bool { return !current[uid] })
}
