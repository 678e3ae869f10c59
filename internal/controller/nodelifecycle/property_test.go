package nodelifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/provider"
)

// model is a cluster with a cloud that lies, and what a dumb observer of both remembers. It knows nothing of the guard.
type model struct {
	t        *rapid.T
	settings Settings
	// steady says that one node is ready, and that all others are dead forever.
	steady bool
	now    time.Time
	nodes  []facts
	guard  guard
	// deletion log is what outlives a restart.
	deletionLog []spending
	// denials are the times of the believable observations that denied a node, since anything spoke for it or its kubelet did, and since
	// the last one that was not believable. last is the time of the last observation that denied it, whether believable or not.
	denials map[types.UID][]time.Time
	last    map[types.UID]time.Time
	// affirmed is the time of the last observation that knew any instance, and planned the time of the plan's observation.
	affirmed, planned time.Time
	// counted are the times of deletions that were neither announced nor acknowledged.
	counted []time.Time
	// limits are the highest limits under which deletions of nodes were planned and tried again: the cluster may shrink meanwhile.
	limits  map[types.UID]int
	lastSaw time.Time
	// dead are the nodes that were deleted, which the cache may still show.
	dead map[types.UID]bool
}

func newModel(t *rapid.T) *model {
	m := &model{t: t, now: today, denials: map[types.UID][]time.Time{}, last: map[types.UID]time.Time{}, settings: testSettings(), dead: map[types.UID]bool{},
		limits: map[types.UID]int{}}
	m.settings.Confirmations = rapid.IntRange(1, 3).Draw(t, "confirmations")
	m.settings.MinDenialTime = rapid.SampledFrom([]time.Duration{0, 10 * time.Second, time.Minute}).Draw(t, "min denial time")
	m.settings.Limit = rapid.SampledFrom([]Limit{{Percent: 25}, {Percent: 60}, {Percent: 100}, {Count: 1}, {Count: 4}, {}}).Draw(t, "limit")
	m.steady = rapid.Bool().Draw(t, "steady")
	for i := range rapid.IntRange(1, 14).Draw(t, "nodes") {
		m.nodes = append(m.nodes, m.draw(fmt.Sprintf("n%02d", i)))
	}
	return m
}

func (m *model) draw(name string) facts {
	f := facts{uid: types.UID("uid-" + name), name: name, created: birth}
	f.owner = rapid.SampledFrom([]owner{ours, ours, ours, awaited, foreign}).Draw(m.t, "owner")
	m.change(&f)
	return f
}

// change is what others do to a node.
func (m *model) change(f *facts) {
	if m.steady {
		*f = facts{uid: f.uid, name: f.name, created: birth, owner: ours, ready: f.name == "n00", paused: f.paused, heldFor: f.heldFor}
		return
	}
	f.ready = rapid.Bool().Draw(m.t, "ready")
	f.reportedAt = time.Time{}
	if rapid.IntRange(0, 3).Draw(m.t, "reports") == 0 {
		f.reportedAt = m.now
	}
	f.excluded = rapid.IntRange(0, 9).Draw(m.t, "excluded") == 0
	f.announced = rapid.IntRange(0, 4).Draw(m.t, "announced") == 0
	f.acknowledged = rapid.IntRange(0, 9).Draw(m.t, "acknowledged") == 0
	if rapid.IntRange(0, 4).Draw(m.t, "tainted") == 0 {
		f.taints = []corev1.Taint{shutdownTaint()}
	}
}

// say draws what the cloud says: anything from the truth to nothing, of everything, of some, or of none.
func (m *model) say() answers {
	said := answers{}
	at := m.now
	if !m.lastSaw.IsZero() && rapid.IntRange(0, 5).Draw(m.t, "repeated") == 0 {
		at = m.lastSaw
	}
	m.lastSaw = at
	mood := rapid.SampledFrom([]string{"mixed", "mixed", "mixed", "empty", "error"}).Draw(m.t, "mood")
	for _, node := range m.nodes {
		if m.steady {
			said[node.uid] = answer{exists: node.ready, at: m.now}
			continue
		}
		if mood == "error" || node.owner == foreign || rapid.IntRange(0, 5).Draw(m.t, "asked") == 0 {
			continue
		}
		state := rapid.SampledFrom([]provider.InstanceState{provider.InstanceRunning, provider.InstanceStopped, provider.InstanceStateUnknown})
		said[node.uid] = answer{exists: mood == "mixed" && rapid.IntRange(0, 2).Draw(m.t, "exists") > 0, state: state.Draw(m.t, "state"), at: at}
	}
	return said
}

// believable is the observer's own idea of an answer that is worth something: it knows an instance, or it was not asked for a node that is ready.
func (m *model) believable(said answers) bool {
	return m.affirms(said) || !slices.ContainsFunc(m.nodes, func(n facts) bool {
		answer, known := said[n.uid]
		return known && !answer.exists && n.owner == ours && n.ready && !n.announced
	})
}

// affirms reports whether an answer knows an instance.
func (m *model) affirms(said answers) bool {
	return slices.ContainsFunc(m.nodes, func(n facts) bool { return n.owner != foreign && said[n.uid].exists })
}

// reports is the observer's own idea of a kubelet that runs.
func (m *model) reports(node facts) bool {
	return node.ready || !node.reportedAt.IsZero() && m.now.Sub(node.reportedAt) < 15*time.Minute
}

// silence is the observer's own idea of a cluster without a running kubelet that could contradict the cloud.
func (m *model) silence() bool {
	return !slices.ContainsFunc(m.nodes, func(n facts) bool { return n.owner != foreign && m.reports(n) && !n.announced })
}

// watch is what the observer notes of an observation.
func (m *model) watch(said answers) {
	if !m.believable(said) {
		clear(m.denials)
	}
	for _, node := range m.nodes {
		answer, known := said[node.uid]
		if known && answer.exists && node.owner != foreign {
			m.affirmed = latest(m.affirmed, answer.at)
		}
		switch row := m.denials[node.uid]; {
		case node.ready && !node.excluded, known && answer.exists && !node.excluded:
			delete(m.denials, node.uid)
			delete(m.last, node.uid)
		case known && !answer.exists:
			m.last[node.uid] = latest(m.last[node.uid], answer.at)
			if m.believable(said) && !slices.Contains(row, answer.at) {
				m.denials[node.uid] = append(row, answer.at)
			}
		}
		if m.reports(node) {
			delete(m.denials, node.uid)
		}
	}
}

// pass makes a pass and holds what it decides to the rules. Deletions take their time, as long as they may.
func (m *model) pass() {
	said := m.say()
	m.watch(said)
	m.planned = m.now
	planned, next := decide(m.nodes, said, m.guard, m.settings, m.now)
	m.checkStable(said, planned)
	m.guard = next
	if planned.deletions() > 0 {
		m.deletionLog = next.spent
	}
	began, silent := m.now, m.silence()
	var carriedOut plan
	for _, action := range planned.actions {
		if action.node.owner == foreign || action.node.excluded || action.node.paused[action.kind] {
			m.t.Fatalf("%v acts on a node that is foreign, excluded or paused", show(planned))
		}
		if action.kind == deleteNode {
			if !action.again {
				m.limits[action.node.uid] = 0
			}
			m.limits[action.node.uid] = max(m.limits[action.node.uid], planned.limit)
			took := rapid.Int64Range(0, int64(m.settings.applyTime())).Draw(m.t, "took")
			m.now = latest(m.now, began.Add(time.Duration(took)))
			counts := m.checkDeletion(action)
			happens, seen := m.delete(action, began)
			if happens && counts {
				m.countDeletion(m.limits[action.node.uid])
			}
			if !seen {
				continue
			}
		}
		carriedOut.actions = append(carriedOut.actions, action)
	}
	m.apply(carriedOut)
	// Otherwise there may be room for other deletions, or none is left that contradicts the cloud.
	if len(carriedOut.actions) == len(planned.actions) && total(m.guard.spent) == total(next.spent) && m.silence() == silent {
		m.checkFixedPoint(said, planned, began)
	}
}

// delete has a deletion happen or not, and the controller learn the truth of it or nothing: then the cache may not show it either.
func (m *model) delete(action action, began time.Time) (happens, seen bool) {
	fate := rapid.SampledFrom([]string{"done", "done", "unknown and done", "unknown and not seen", "unknown", "refused", "outdated"}).Draw(m.t, "fate")
	node := &m.nodes[slices.IndexFunc(m.nodes, func(n facts) bool { return n.uid == action.node.uid })]
	wasDead := m.dead[node.uid]
	if wasDead && fate != "refused" && fate != "unknown" {
		fate = "gone"
	}
	unknown := strings.HasPrefix(fate, "unknown")
	happens = !wasDead && (fate == "done" || fate == "unknown and done" || fate == "unknown and not seen")
	if action.counted {
		m.guard = m.guard.conclude(action, began, fate == "done" || unknown, unknown || fate == "refused")
	}
	m.dead[node.uid] = wasDead || happens
	node.paused[deleteNode] = unknown || fate == "refused"
	node.excluded = node.excluded || fate == "outdated" // until the cache shows why
	return happens, fate == "gone" || happens && fate != "unknown and not seen"
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// checkDeletion holds that a node may be deleted, and reports whether the limit covers that.
func (m *model) checkDeletion(action action) (counts bool) {
	row, last := m.denials[action.node.uid], m.last[action.node.uid]
	switch {
	case action.node.ready:
		m.t.Fatalf("deletes %s, which is ready", action.node.name)
	case last.IsZero() || m.planned.Sub(last) >= answerAge:
		m.t.Fatalf("deletes %s, which the cloud denied at %s", action.node.name, last)
	case action.node.acknowledged:
		return false
	case m.reports(action.node):
		m.t.Fatalf("deletes %s, whose kubelet reported at %s", action.node.name, action.node.reportedAt)
	case len(row) < m.settings.Confirmations:
		m.t.Fatalf("deletes %s after denials at %v, want %d", action.node.name, row, m.settings.Confirmations)
	case (!action.node.announced || m.silence()) && m.lasted(row) < m.settings.MinDenialTime:
		m.t.Fatalf("deletes %s after denials at %v, want them to last %s", action.node.name, row, m.settings.MinDenialTime)
	case action.node.announced && m.silence():
		return false
	case m.affirmed.Before(row[0].Add(-DefaultPeriod)) || m.planned.Sub(m.affirmed) >= answerAge:
		m.t.Fatalf("deletes %s by denials at %v of a cloud that last knew an instance at %s", action.node.name, row, m.affirmed)
	case action.node.announced, m.settings.Limit.Off():
		return false
	}
	return true
}

// countDeletion holds that no more nodes are deleted than the limit allows.
func (m *model) countDeletion(limit int) {
	m.counted = append(m.counted, m.now)
	within := 0
	for _, at := range m.counted {
		if m.now.Sub(at) < m.settings.Window {
			within++
		}
	}
	if within > limit {
		m.t.Fatalf("%d deletions within %s, the limit is %d", within, m.settings.Window, limit)
	}
}

// lasted returns how much time denials of a node span.
func (m *model) lasted(row []time.Time) time.Duration {
	return row[len(row)-1].Sub(row[0])
}

// checkStable holds that the order of the nodes means nothing.
func (m *model) checkStable(said answers, planned plan) {
	shuffled := rapid.Permutation(m.nodes).Draw(m.t, "order")
	again, _ := decide(shuffled, said, m.guard, m.settings, m.now)
	if diff := cmp.Diff(show(planned), show(again)); diff != "" {
		m.t.Fatalf("the plan depends on the order of the nodes:\n%s", diff)
	}
}

// checkFixedPoint holds that nothing is left to do when the plan was carried out, unless the limit is another because the cluster is smaller, or
// was reached while a node waited for the affirmation of others.
func (m *model) checkFixedPoint(said answers, planned plan, at time.Time) {
	again, _ := decide(m.nodes, said, m.guard, m.settings, at)
	reached := planned.affirm && again.spent >= again.limit
	if len(again.actions) > 0 && again.limit == planned.limit && !reached {
		m.t.Fatalf("%v leads to %v", show(planned), show(again))
	}
}

// apply changes the nodes as a plan says.
func (m *model) apply(planned plan) {
	for _, action := range planned.actions {
		i := slices.IndexFunc(m.nodes, func(n facts) bool { return n.uid == action.node.uid })
		switch node := &m.nodes[i]; action.kind {
		case markHeld:
			if node.owner == ours {
				node.heldFor = action.reason
			}
		case clearHeld:
			node.heldFor = ""
		case addTaint:
			node.taints = []corev1.Taint{shutdownTaint()}
		case removeTaint:
			node.taints = nil
		case deleteNode:
			m.nodes = slices.Delete(m.nodes, i, i+1)
		}
	}
}

func TestGuardHoldsWhateverTheCloudSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for i := range rapid.IntRange(1, 30).Draw(t, "passes") {
			m.now = m.now.Add(time.Duration(rapid.IntRange(1, 240).Draw(t, "seconds")) * time.Second)
			for j := range m.nodes {
				m.nodes[j].paused[deleteNode] = m.nodes[j].paused[deleteNode] && rapid.Bool().Draw(t, "paused")
				if rapid.IntRange(0, 3).Draw(t, "changes") == 0 {
					m.change(&m.nodes[j])
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "joins") == 0 {
				m.nodes = append(m.nodes, m.draw(fmt.Sprintf("j%02d", i)))
			}
			if rapid.IntRange(0, 5).Draw(t, "restarts") == 0 { // everything but the deletionLog is lost
				m.guard = guard{spent: m.deletionLog, historyUnknown: rapid.IntRange(0, 3).Draw(t, "historyUnknown") == 0}
				m.denials, m.last, m.affirmed = map[types.UID][]time.Time{}, map[types.UID]time.Time{}, time.Time{}
			}
			m.pass()
		}
	})
}
