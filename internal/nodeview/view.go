// Package nodeview is the one view of what the cloud says of the nodes that a controller watches closely: a row for each node, by its UID. It says
// when the cloud is asked about a node's existence and state again, and asks through the shared inventory: by a listing where the cloud can list, and
// otherwise by a question for each node.
//
// A question outlives the pass that put it, so a node for which the cloud does not answer holds no pass up: its answer is for the next pass, and no
// second question is put meanwhile.
package nodeview

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// Row is what is known of one node. The zero value knows nothing.
type Row struct {
	// Node is the node as it was when the last answered question was put; nil before the first answer.
	Node *corev1.Node
	// Observation is that answer, and Err why there was none: both as StateEach describes them.
	Observation instances.Observation
	Err         error
	// Open says that a question has not been answered yet.
	Open bool

	// since is when the node came to be wanted, zero while it is not.
	since time.Time
	// asked is when the last question was put, answered when the last answer came, and changed when the question was put by whose answer the node,
	// or what the cloud says of it, last was another than before.
	asked, answered, changed time.Time
	// expected is when a caller needs the next answer, zero if it needs none in particular.
	expected time.Time
	failures kit.Row
	// news says that the answer has not been returned by Ask, and slow that no pass waits for the next one.
	news, slow bool
	// pass is the call of Ask that put the question.
	pass int
}

// Options are what views differ in.
type Options struct {
	// Inventory is asked. Required.
	Inventory *instances.Inventory
	// Shows returns what of a node makes a new question necessary when it changes: something comparable. Required.
	Shows func(*corev1.Node) any
	// Subscriber is called when the cloud has answered for which no call of Ask waited, so there should be a next one. It is not called for
	// errors. Required.
	Subscriber func()
}

// View is the rows of nodes. Calls of Want, Ask and Expect must not overlap; Get may be called at any time.
type View struct {
	options Options
	whole   bool // one call answers for all nodes, and there is one at a time

	mu   sync.Mutex
	rows map[types.UID]*Row
	open int
	news []Row
	// pass counts the calls of Ask, waits how many answers the current one waits for, and done tells it that there are none left.
	pass, waits int
	asking      bool
	done        chan struct{}
}

// New returns a view that has not asked for any node yet.
func New(options Options) *View {
	return &View{options: options, whole: options.Inventory.Lists(), rows: map[types.UID]*Row{}, done: make(chan struct{}, 1)}
}

// Get returns the row of a node.
func (v *View) Get(node types.UID) Row {
	v.mu.Lock()
	defer v.mu.Unlock()
	if row := v.rows[node]; row != nil {
		return *row
	}
	return Row{}
}

// Want says which nodes are to be watched from now on, and returns those whose turn it is to be asked for. A listing answers for all of them.
func (v *View) Want(nodes []*corev1.Node, now time.Time) []*corev1.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	wanted, off := make(map[types.UID]bool, len(nodes)), 0
	for _, node := range nodes {
		row := v.row(node.UID)
		if row.since.IsZero() {
			row.since, row.expected, row.Err = now, now, nil
		}
		if row.isOff(node) {
			off++
		}
		wanted[node.UID] = true
	}
	maps.DeleteFunc(v.rows, func(uid types.UID, row *Row) bool {
		if wanted[uid] {
			return false
		}
		row.since = time.Time{}
		return !row.Open && !row.news && now.Sub(row.answered) >= kit.LongestRetry
	})
	var turn []*corev1.Node
	for _, node := range nodes {
		row := v.rows[node.UID]
		if !now.Before(next(*row, node, off)) || v.options.Shows(node) != v.options.Shows(row.Node) {
			turn = append(turn, node)
		}
	}
	if v.whole && len(turn) > 0 {
		return nodes
	}
	return turn
}

// Expect has nodes asked for at a time, because something is decided by the answer.
func (v *View) Expect(nodes map[types.UID]time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for node, at := range nodes {
		if row := v.rows[node]; row != nil {
			row.expected = at
		}
	}
}

// row returns the row of a node. The lock is held.
func (v *View) row(node types.UID) *Row {
	row := v.rows[node]
	if row == nil {
		row = &Row{}
		v.rows[node] = row
	}
	return row
}

// Ask asks for those of the nodes for which no question is open and that did not fail a short while ago, and returns the rows of all nodes for
// which an answer has come since the last call. That an instance is there may be said by an answer up to maxAge old. Ask waits for new answers for
// instances.AnswerWait, and not for nodes whose last answer took longer. What it returns without having asked for it is not asked for by this call.
// The questions end with ctx.
//
// Of a node that is wanted a denial from before it came to be so says nothing, and is not returned.
func (v *View) Ask(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration) []Row {
	asked, waits := v.begin(nodes, time.Now())
	if len(asked) > 0 {
		go v.put(ctx, asked, maxAge)
	}
	if waits {
		timer := time.NewTimer(instances.AnswerWait)
		defer timer.Stop()
		select {
		case <-v.done:
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	return v.end()
}

// begin opens questions, and reports whether there are answers to wait for.
func (v *View) begin(nodes []*corev1.Node, now time.Time) (asked []*corev1.Node, waits bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pass++
	v.asking, v.waits = true, 0
	if v.whole && (v.open > 0 || len(v.news) > 0) {
		return nil, false
	}
	for _, node := range nodes {
		row := v.row(node.UID)
		if row.Open || row.news || row.failures.Rests(now) {
			continue
		}
		row.Open, row.asked, row.pass = true, now, v.pass
		v.open++
		if !row.slow {
			v.waits++
		}
		asked = append(asked, node)
	}
	return asked, v.waits > 0
}

func (v *View) put(ctx context.Context, nodes []*corev1.Node, maxAge time.Duration) {
	var all []Row
	v.options.Inventory.StateEach(ctx, nodes, maxAge, func(node *corev1.Node, observation instances.Observation, err error) {
		answer := Row{Node: node, Observation: observation, Err: err}
		if v.whole {
			all = append(all, answer)
		} else {
			v.take(answer)
		}
	})
	v.take(all...)
}

// take takes answers, and has the subscriber told if no call waits for them.
func (v *View) take(answers ...Row) {
	if v.keep(answers, time.Now()) {
		v.options.Subscriber()
	}
}

// keep reports whether there is something new for which no call waits.
func (v *View) keep(answers []Row, now time.Time) (tell bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, answer := range answers {
		row := v.rows[answer.Node.UID]
		if row.pass == v.pass && v.asking && !row.slow {
			if v.waits--; v.waits == 0 {
				v.done <- struct{}{}
			}
		}
		v.open--
		v.note(row, answer, now)
		v.news = append(v.news, *row)
		tell = tell || !v.asking && answer.Err == nil
	}
	return tell
}

// note notes an answer in its row. Only an answer says how the node is, so after an error that is new.
func (v *View) note(row *Row, answer Row, now time.Time) {
	same := row.says() && answer.says() && row.Observation.Status == answer.Observation.Status &&
		row.Observation.State == answer.Observation.State && v.options.Shows(row.Node) == v.options.Shows(answer.Node)
	if !same {
		row.changed = row.asked
	}
	row.Node, row.Observation, row.Err = answer.Node, answer.Observation, answer.Err
	row.Open, row.news, row.answered, row.expected = false, true, now, time.Time{}
	row.slow = now.Sub(row.asked) > instances.AnswerWait
	if answer.Err == nil || v.whole { // a listing that fails has a pause of its own
		row.failures = kit.Row{}
	} else {
		row.failures = row.failures.Failed(now, failurePauses, answer.Err)
	}
}

// end returns what has come.
func (v *View) end() []Row {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asking = false
	select {
	case <-v.done: // of an answer that came when the wait was over
	default:
	}
	var rows []Row
	for _, answer := range v.news {
		row := v.rows[answer.Node.UID]
		row.news = false
		denied := answer.Err == nil && answer.Observation.Status == instances.NotFound
		if !denied || !answer.Observation.At.Before(row.since) {
			rows = append(rows, answer)
		}
	}
	v.news = nil
	return rows
}

// says reports whether the last answer said something.
func (r *Row) says() bool {
	return r.Node != nil && r.Err == nil && r.Observation.Status != instances.NoStatement
}

// isOff reports whether a node has the shutdown taint, and rightly so: of it, nothing is left to learn but that its instance is gone.
func (r *Row) isOff(node *corev1.Node) bool {
	return r.says() && r.Observation.State == provider.InstanceStopped && instances.IsShutDown(node)
}
