package instances

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// AnswerWait is how long a pass waits for the answers to the questions that it puts. A cloud answers within a second; a node
	// for which it takes longer must not hold up what the pass can do for the others, and two seconds are what a node that is gone
	// takes from one observation to the next.
	AnswerWait = 1500 * time.Millisecond
)

// Answer is what the cloud said of a node, or why it said nothing.
type Answer struct {
	// Node is the node as it was when the question was put.
	Node        *corev1.Node
	Observation Observation
	// Err is as Lookup or StateEach describes it.
	Err error
}

// Put puts one question for many nodes: LookupEach, StateEach or ExistsEach, with an age.
type Put func(ctx context.Context, nodes []*corev1.Node, yield Yield)

// Questions puts one question for many nodes, pass after pass, so a node for which the cloud does not answer holds no
// pass up. A question outlives the pass that put it: its answer is for the next pass, and no second one is put meanwhile.
// Who plans by the answers takes a node without one for unknown.
//
// Where the cloud can list, what one call says of all nodes is one answer: it is returned whole, and there is one at a time.
type Questions struct {
	put     Put
	options QuestionOptions
	whole   bool

	mu   sync.Mutex
	of   map[nodeKey]*question
	open int
	late []Answer // came after the pass that asked, and were not returned yet
}

// QuestionOptions are what askers differ in.
type QuestionOptions struct {
	// Late is called when the cloud has answered for which no pass waited, so there is a next one. It is not
	// called for errors. Nil: no caller wants to know.
	Late func()
	// LongestPause bounds the pause after which a node is asked for again for which the cloud returns errors. The pause begins
	// with a second and doubles. Zero: no pause. It does not apply where the cloud can list.
	LongestPause time.Duration
}

// question is what is known of the question for one node.
type question struct {
	open     bool
	began    time.Time
	slow     bool // the last answer took longer than AnswerWait, and its pass did not wait for it
	failures int  // in a row
	ended    time.Time
	again    time.Time // when the node may be asked for again
}

// round is what one call of Ask put to the cloud.
type round struct {
	nodes   []*corev1.Node
	waiting int           // answers that the call waits for
	done    chan struct{} // closed when the call waits for no more
	over    bool          // the call waits no more
	answers []Answer
}

// Questions returns an asker that has not asked for any node yet.
func (i *Inventory) Questions(put Put, options QuestionOptions) *Questions {
	return &Questions{put: put, options: options, whole: i.Lists(), of: map[nodeKey]*question{}}
}

// Ask puts the question for those of the nodes for which none is open, and returns all answers that have come since the last call. It waits
// for new answers for AnswerWait, and not for nodes whose last answer took longer. Nodes whose answers it returns without having asked for
// them are left to the next call. Calls must not overlap; ctx is the one of the questions too, and ends them.
func (q *Questions) Ask(ctx context.Context, nodes []*corev1.Node) []Answer {
	r := q.begin(nodes, time.Now())
	waits := r.waiting > 0 // which is no longer to be read once the question is put
	if len(r.nodes) > 0 {
		go q.run(ctx, r)
	}
	if waits {
		timer := time.NewTimer(AnswerWait)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	return q.end(r)
}

// Answered reports whether the last question for a node, if there was any, was answered, and without an error.
func (q *Questions) Answered(node *corev1.Node) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.of[keyOf(node)]
	return known == nil || !known.open && known.failures == 0
}

// Open returns how many questions have not been answered yet.
func (q *Questions) Open() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open
}

// begin takes the late answers, and opens questions for the nodes that may be asked for.
func (q *Questions) begin(nodes []*corev1.Node, now time.Time) *round {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := &round{answers: q.late, done: make(chan struct{})}
	q.late = nil
	if q.whole && (q.open > 0 || len(r.answers) > 0) {
		return r
	}
	maps.DeleteFunc(q.of, func(_ nodeKey, known *question) bool { return !known.open && now.Sub(known.ended) >= retention })
	answered := map[nodeKey]bool{}
	for _, answer := range r.answers {
		answered[keyOf(answer.Node)] = true
	}
	for _, node := range nodes {
		key := keyOf(node)
		known := q.of[key]
		if known == nil {
			known = &question{}
			q.of[key] = known
		}
		if answered[key] || !known.askable(now) {
			continue
		}
		known.open, known.began = true, now
		q.open++
		r.nodes = append(r.nodes, node)
		if !known.slow {
			r.waiting++
		}
	}
	return r
}

func (q *Questions) run(ctx context.Context, r *round) {
	if !q.whole {
		q.put(ctx, r.nodes, func(node *corev1.Node, observation Observation, err error) {
			q.answer(r, Answer{node, observation, err})
		})
		return
	}
	all := make([]Answer, 0, len(r.nodes))
	q.put(ctx, r.nodes, func(node *corev1.Node, observation Observation, err error) {
		all = append(all, Answer{node, observation, err})
	})
	q.answer(r, all...)
}

// answer closes questions, and keeps the answers for the call that waits for them, or for the next one.
func (q *Questions) answer(r *round, answers ...Answer) {
	if q.keep(r, answers, time.Now()) && q.options.Late != nil {
		q.options.Late()
	}
}

// keep reports whether there is something new for which no call waits.
func (q *Questions) keep(r *round, answers []Answer, now time.Time) (news bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, answer := range answers {
		known := q.of[keyOf(answer.Node)]
		if !known.slow {
			if r.waiting--; r.waiting == 0 {
				close(r.done)
			}
		}
		q.open--
		known.close(answer.Err, now, q.options.LongestPause, q.whole)
		known.slow = r.over && now.Sub(known.began) > AnswerWait
		news = news || r.over && answer.Err == nil
	}
	if r.over {
		q.late = append(q.late, answers...)
	} else {
		r.answers = append(r.answers, answers...)
	}
	return news
}

func (k *question) askable(now time.Time) bool { return !k.open && !now.Before(k.again) }

// close notes the end of a question.
func (k *question) close(err error, now time.Time, longest time.Duration, whole bool) {
	k.open, k.ended = false, now
	if err == nil {
		k.failures, k.again = 0, time.Time{}
		return
	}
	pause := longest
	if k.failures < 16 { // more would overflow, and is longer than any pause
		pause = min(longest, errorHold<<k.failures)
	}
	k.failures++
	if !whole {
		k.again = now.Add(pause)
	}
}

// end returns the answers of a call, which waits no more.
func (q *Questions) end(r *round) []Answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.over = true
	return r.answers
}
