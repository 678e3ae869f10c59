package nodelifecycle

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// reconciler makes passes, one after the other.
type reconciler struct {
	reader      client.Reader
	dirtyNodes  *dirtyNodes
	rules       ownership.Rules
	observer    *observer
	writes      *writes
	deletionLog *DeletionLog
	settings    Settings
	metrics     *metrics

	guard guard
	state nodeState
	// failures logs what is not about a single node.
	failures kit.FailureLog
}

// pass looks at all nodes once, if there can be anything to do about any of them. What goes wrong is logged, and tried again by
// the next pass. It returns when nodes that wait for another observation can be decided about, to confirm this one or to learn whether
// it can be believed, or zero if there are no such nodes.
func (p *reconciler) pass(ctx context.Context) (again time.Time) {
	began := time.Now()
	p.finish(ctx, p.writes.collect())
	if looks := p.dirtyNodes.needsPass(); !looks && p.idle() {
		p.metrics.passed(time.Since(began))
		return time.Time{}
	}
	p.readDeletionLog(ctx, began)
	all, err := p.list(ctx)
	if err != nil {
		return time.Time{}
	}
	p.act(ctx, all, nil) // for nodes that are ready again: a cloud that takes its time does not matter to them
	nodes := p.facts(all, began)
	seen := p.observer.observe(ctx, nodes, all, began)
	if draft, _ := decide(nodes, seen.said, p.guard, p.settings, time.Now()); draft.affirm {
		p.observer.affirm(ctx, &seen, nodes, all, time.Now())
	}
	p.metrics.asked.Add(float64(seen.answered))
	p.metrics.unanswered.Add(float64(seen.failed))
	if ctx.Err() != nil {
		return time.Time{}
	}
	p.writes.recordUnanswered(seen.unanswered)
	p.failures.Note(ctx, "Could not learn from the cloud about nodes that are not ready", seen.err)

	// Meanwhile a node may have become ready, or its object another.
	if all, err = p.list(ctx); err != nil {
		return time.Time{}
	}
	planned := p.act(ctx, all, seen.said)
	p.metrics.planned(planned)
	p.metrics.passed(time.Since(began))
	p.observer.view.Expect(planned.due)
	return p.next(planned)
}

// next returns when something that waits for its time can be decided about, or zero if nothing does.
func (p *reconciler) next(planned plan) (again time.Time) {
	if planned.affirm {
		again = p.observer.nextRound()
	}
	for _, due := range planned.due {
		if again.IsZero() || due.Before(again) {
			again = due
		}
	}
	return again
}

// idle reports whether nothing is left of earlier passes that the time or another pass has to change: denials that end when a
// node is ready, deletions that count against the limit, a deletion log that could not be read.
func (p *reconciler) idle() bool {
	return len(p.guard.denials) == 0 && len(p.guard.spent) == 0 && (!p.guard.historyUnknown || p.settings.Limit.Off())
}

// act decides and carries out what was decided.
func (p *reconciler) act(ctx context.Context, all []*corev1.Node, said answers) plan {
	now := time.Now()
	planned := p.plan(ctx, p.facts(all, now), said, now)
	p.finish(ctx, p.writes.apply(ctx, planned.actions, now))
	return planned
}

// list returns all nodes as the cache shows them. They must not be changed.
func (p *reconciler) list(ctx context.Context) ([]*corev1.Node, error) {
	var list corev1.NodeList
	err := p.reader.List(ctx, &list, client.UnsafeDisableDeepCopy)
	p.failures.Note(ctx, "Could not list the nodes", err)
	if err != nil {
		p.dirtyNodes.markChanged()
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes, current := make([]*corev1.Node, len(list.Items)), make(map[types.UID]bool, len(list.Items))
	for i := range list.Items {
		nodes[i], current[list.Items[i].UID] = &list.Items[i], true
	}
	p.state.forget(current)
	return nodes, nil
}

// facts returns what matters of the nodes, in the same order.
func (p *reconciler) facts(all []*corev1.Node, now time.Time) []facts {
	nodes := make([]facts, len(all))
	for i, node := range all {
		nodes[i] = factsOf(node, ownerOf(p.rules, node))
		p.state.apply(&nodes[i], now)
		nodes[i].excluded = nodes[i].excluded || p.writes.underWay(node.UID)
	}
	return nodes
}

// readDeletionLog reads the deletion log until that has succeeded, and again after it could not be written.
func (p *reconciler) readDeletionLog(ctx context.Context, now time.Time) {
	if !p.guard.historyUnknown || p.settings.Limit.Off() {
		return
	}
	spent, err := p.deletionLog.read(ctx, now)
	p.failures.Note(ctx, "Could not read the record of node deletions; until then no deletion counts as allowed", err)
	if err == nil {
		p.guard.spent, p.guard.historyUnknown = spent, false
	}
}

// plan decides, and records deletions in the deletion log before they happen. If the record cannot be written, nothing is deleted, and the plan is
// made without knowledge of earlier deletions.
func (p *reconciler) plan(ctx context.Context, nodes []facts, said answers, now time.Time) plan {
	planned, next := decide(nodes, said, p.guard, p.settings, now)
	if planned.deletions() > 0 {
		err := p.deletionLog.write(ctx, next.spent, now)
		p.failures.Note(ctx, "Could not note deletions of nodes; until then no deletion counts as allowed", err)
		if err != nil {
			p.guard.historyUnknown = true
			planned, next = decide(nodes, said, p.guard, p.settings, now)
		}
	}
	p.guard = next
	return planned
}

// finish draws the consequences of what was done.
func (p *reconciler) finish(ctx context.Context, results []result) {
	for _, done := range results {
		p.metrics.wrote(done)
		p.logResult(ctx, done, p.state.note(done, time.Now()))
		if done.action.counted {
			possible := done.outcome == kit.Written || done.outcome == kit.Uncertain
			p.guard = p.guard.conclude(done.action, done.planned, possible, done.outcome.Failed())
		}
	}
}

func (p *reconciler) logResult(ctx context.Context, done result, news bool) {
	logger := log.FromContext(ctx).WithValues("node", done.action.node.name, "providerID", done.action.node.providerID)
	switch {
	case done.outcome.Failed():
		if news && ctx.Err() == nil {
			logger.Error(done.err, "Could not write to a node; retrying", "operation", done.action.kind.String())
		}
	case done.outcome != kit.Written:
		logger.V(1).Info("Node changed before the write; planning again", "operation", done.action.kind.String())
	default:
		var reason []any
		if is := cmp.Or(string(done.action.reason), string(done.action.cause)); is != "" {
			reason = []any{"reason", is}
		}
		logger.Info(kinds[done.action.kind].done, reason...)
	}
}

// kinds say of each kind of action how the metrics label it, what makes it necessary, and what was done.
var kinds = [...]struct{ label, why, done string }{
	markHeld: {
		"hold", "the cloud denies the node's instance, and the guard rejects the answer", "Held a node: the cloud denies its instance, and the guard rejects the answer",
	},
	clearHeld:   {"release", "the cloud no longer denies the node's instance", "Cloud knows the instance of a held node again"},
	addTaint:    {"taint", "the node's instance is shut down", "Tainted a node: its instance is shut down"},
	removeTaint: {"untaint", "the node's instance is no longer shut down", "Removed the shutdown taint from a node"},
	deleteNode:  {"delete", "the cloud has no instance for it", "Deleted a node: the cloud has no instance for it"},
}

// String names an action as the metrics label it.
func (k actionKind) String() string { return kinds[k].label }
