// Package pace says when initialized nodes are looked up where each lookup costs the cloud a call: soon after something has happened to a
// node, and otherwise less and less often. It looks up nothing itself.
//
// See ADR 59.
package pace

import (
	"cmp"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// Cause is why an initialized node is looked up, as mooring_node_refresh_lookups_total labels it. What happens to a node is another.
type Cause string

const (
	// First is that this process has met the node, when it began to lead or later, and has not looked it up.
	First Cause = "first"
	// Age is that the last lookup is old by the time for which nothing has changed about the node.
	Age Cause = "age"
	// Retry is that the last lookup failed.
	Retry Cause = "retry"
)

// FirstRound is long enough to spread the lookups of all nodes. It is short enough to find soon what changed while no replica led.
const FirstRound = 10 * time.Second

// Pace is how long it is from one lookup of a node to the next: as long as nothing has changed about the node, in doublings of Shortest, and
// no longer than Longest.
type Pace struct {
	Shortest, Longest time.Duration
	// first is over how long the lookups of nodes are spread that this process has met.
	first time.Duration
}

// New returns a pace. Both pauses are more than zero.
func New(shortest, longest time.Duration) Pace {
	return Pace{Shortest: shortest, Longest: longest, first: min(FirstRound, shortest)}
}

// History is what is known of the lookups of one node, and of what happened to it between them.
type History struct {
	// Name is the node's.
	Name string
	uid  types.UID
	// since is when this process could look the node up first: it began to lead then, or the node was initialized.
	since time.Time
	// joined says that this process has seen the node be initialized, by which it was looked up. Others it has met.
	joined bool
	// began is when the last lookup began, zero if there was none.
	began time.Time
	// failed says that the last lookup failed, and retry is when the next one may be made.
	failed bool
	retry  time.Time
	// changed is when something last happened to the node, or the cloud showed it otherwise than it was.
	changed time.Time
	// need is what happened to the node that no lookup has begun after, empty for nothing, and needed when.
	need   Cause
	needed time.Time
	// spent is until when the lookups so far have used up what a node may cost: each takes one shortest pause of it.
	spent time.Time
}

// NewHistory returns the history of a node that this process has just met.
func NewHistory(name string, uid types.UID, now time.Time) *History {
	return &History{Name: name, uid: uid, since: now}
}

// Lead begins the first round. What this process saw happen as a standby was answered by the last leader, unless it was just now.
func (h *History) Lead(p Pace, now time.Time) {
	h.since, h.joined = now, false
	if now.Sub(h.needed) >= p.Shortest {
		h.need = ""
	}
}

// Join notes that the node has been initialized.
func (h *History) Join(now time.Time) { h.since, h.changed, h.joined = now, now, true }

// Settled returns since when nothing has happened to a node, as far as this process can know. The node's own times are of other
// machines' clocks: by one that is wrong a node is looked up as if it were older or younger.
func (h *History) Settled(node *corev1.Node) time.Time {
	return kit.Later(h.changed, kit.Later(ReadySince(node), node.CreationTimestamp.Time))
}

// Due returns when a node is to be looked up next, and why. Settled is since when nothing has happened to it.
//
//   - A lookup that failed is repeated after its pause, whatever happens meanwhile.
//   - A need is answered at once, but in the long run a node is looked up once in each shortest pause: after two lookups that were closer
//     than that the next need waits.
//   - A node that this process has met is looked up in the first round.
//   - By age, a node is looked up no later than its pause after the last lookup, and no sooner than the shortest pause.
func (p Pace) Due(h History, settled time.Time) (time.Time, Cause) {
	if h.failed {
		return h.retry, Retry
	}
	at, why := h.since.Add(time.Duration(phaseOf(h.uid)%uint64(p.first))), First
	switch {
	case !h.began.IsZero():
		at, why = kit.Later(p.slot(h.began, settled, h.uid, p.Longest), h.began.Add(p.Shortest)), Age
	case h.joined:
		at, why = p.afterJoining(h), Age
	}
	if h.need == "" {
		return at, why
	}
	allowed := kit.Later(h.needed, h.spent.Add(-p.Shortest))
	if allowed.After(at) {
		return at, why
	}
	return allowed, h.need
}

// afterJoining returns when a node is due for the first time after it was initialized, by which it was looked up: within the shortest pause, as
// what comes late, such as a load balancer's address, is to be seen then; spread, as nodes join together; and not in the first fifth of it,
// when others may still join.
func (p Pace) afterJoining(h History) time.Time {
	calm := p.Shortest / 5
	return h.since.Add(calm + time.Duration(phaseOf(h.uid)%uint64(p.Shortest-calm)))
}

// slot returns the first time that is a node's by its pause, after the last lookup and after what last happened to the node. A node's times
// are fixed by its UID for each pause, and those of a pause are among those of half of it: so nodes of one age are spread evenly over a pause,
// whenever they were looked up before, and stay so when their pauses double. They are the same for each process, so a node's turn comes
// however often the leader changes.
func (p Pace) slot(last, settled time.Time, uid types.UID, longest time.Duration) time.Time {
	phase, from, pause := phaseOf(uid), kit.Later(last, settled), p.Shortest
	at := next(from, pause, phase)
	for pause <= longest/2 && at.Sub(settled) >= 2*pause {
		pause *= 2
		at = next(from, pause, phase)
	}
	for pause <= longest/2 {
		pause *= 2
	}
	if latest := next(last, pause, phase); at.After(latest) {
		return latest // by another clock something happens to the node only later
	}
	return at
}

// next returns the first time after last that is a phase after a multiple of a pause.
func next(last time.Time, pause time.Duration, phase uint64) time.Time {
	offset := time.Duration(phase % uint64(pause))
	past := (time.Duration(last.UnixNano()) - offset) % pause
	if past < 0 {
		past += pause
	}
	return last.Add(pause - past)
}

func phaseOf(uid types.UID) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(uid)) // never fails
	return hash.Sum64()
}

// Begin notes that a lookup begins, which answers what was needed so far.
func (h *History) Begin(p Pace, now time.Time) {
	if !h.failed {
		h.spent = kit.Later(h.spent, now).Add(p.Shortest)
	}
	h.began, h.need, h.needed = now, "", time.Time{}
}

// End notes how a lookup ended: what failed is repeated after the shortest pause, as with the reference; and what was not as it should be is
// looked at again soon, because something has just changed.
func (h *History) End(p Pace, now time.Time, failed, asItShouldBe bool) {
	switch {
	case failed:
		h.failed, h.retry = true, now.Add(p.Shortest)
	case asItShouldBe:
		h.failed = false
	default:
		h.failed, h.changed = false, now
	}
}

// Note notes a need. Of several, the first is the reason.
func (h *History) Note(need Cause, now time.Time) {
	h.changed = now
	if h.need == "" {
		h.needed = now
	}
	h.need = cmp.Or(h.need, need)
}

// ReadySince returns since when the Ready condition of a node is as it is, zero if the node has none.
func ReadySince(node *corev1.Node) time.Time {
	if _, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); ready != nil {
		return ready.LastTransitionTime.Time
	}
	return time.Time{}
}
