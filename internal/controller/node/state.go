package node

import (
	"errors"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
)

const (
	// minAnswerAge is how old an answer of the cloud may always be by which a node is initialized. A failure that is over by then is not said: what
	// mends itself is nothing to act on.
	minAnswerAge = 2 * time.Second
	// maxAnswerAge bounds how old it may be for a node that has been waiting for its turn. A list that lags has caught up by then: a denial that lasts
	// for longer is said.
	maxAnswerAge = time.Minute
	// listingTrustFactor is for how many times the time that it took a listing is good for nodes that have just appeared, up to half of maxAnswerAge.
	// The listing of a large cloud costs many calls, and its nodes take longer to appear.
	listingTrustFactor = 40
)

// state is what the controller knows of nodes from one pass to the next: a row for each node to which something happens, and none for the others.
type state struct {
	mu   sync.Mutex
	rows map[types.UID]*row
	// retries are the pauses between failures.
	retries workqueue.TypedRateLimiter[types.UID]
}

// row is what is known of one node. What its pointers and maps hold is never changed, so a copy is safe to read.
type row struct {
	progress
	// others are the values of labels that others wrote.
	others map[string]string
}

// progress is where a node stands. The zero value is that it is as the cloud said, and nothing has happened to it.
type progress struct {
	passing   bool      // a pass over the node has begun and not ended
	again     bool      // an answer that came meanwhile differs
	appeared  time.Time // when this process first saw the node wait for its initialization, by its own clock
	since     time.Time // when the node last gave reason to be looked at
	news      bool      // that reason was the node itself: it appeared or changed
	waiting   bool      // a pass ended without a result
	conflicts int
	own       kit.OwnWrite
	settled   bool // our own write left nothing to do
	// said is the answer by which a write was planned that came too late, and providerID the one that the node had by then. The node is planned anew
	// by it, and the cloud is not asked again.
	said       *instances.Observation
	providerID string
	// failing is since when passes have failed, and reason why the last one did.
	failing time.Time
	reason  string
	// addressless nodes are as the cloud says except for the addresses, which the API server has refused.
	addressless bool
	// writtenFrom is when the answer was sought by which the node was last written.
	writtenFrom time.Time
	// denied nodes report although the cloud denies their instances. Of missed ones, with neither a provider ID nor the taint, it has instances.
	denied, missed denial
}

// denial is since when the answers of the cloud do not fit a node, and whether that lasts.
type denial struct {
	since time.Time
	lasts bool
}

func newState() *state {
	return &state{rows: map[types.UID]*row{}, retries: kit.NewRetryLimiter[types.UID]()}
}

// get returns a copy of what is known of a node, the zero value for nothing.
func (s *state) get(uid types.UID) row {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.rows[uid]; known != nil {
		return *known
	}
	return row{}
}

// edit changes what is known of a node. A node that has no row gets one where that is asked for, and is left alone otherwise: it may have been
// deleted. The function must not call the state.
func (s *state) edit(node *corev1.Node, makes bool, change func(*row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.rows[node.UID]
	switch {
	case known == nil && !makes:
		return
	case known == nil:
		known = &row{}
		s.rows[node.UID] = known
	}
	change(known)
	s.drop(node.UID)
}

// drop drops the row of a node of which nothing is to be remembered. The lock is held.
func (s *state) drop(uid types.UID) {
	if known := s.rows[uid]; known.progress == (progress{}) && known.others == nil {
		delete(s.rows, uid)
	}
}

// forget drops a node that no longer concerns us.
func (s *state) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retries.Forget(uid)
	delete(s.rows, uid)
}

// lasting returns for how many nodes a denial lasts, and how many were missed.
func (s *state) lasting() (denied, missed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.rows {
		if known.denied.lasts {
			denied++
		}
		if known.missed.lasts {
			missed++
		}
	}
	return denied, missed
}

// changed notes that a node that waits for its initialization gave reason to be looked at.
func (s *state) changed(node *corev1.Node, now time.Time) {
	s.edit(node, true, func(known *row) {
		known.since, known.news, known.missed = now, true, denial{}
		if known.appeared.IsZero() {
			known.appeared = now
		}
	})
}

// begin returns what is known of a node at the beginning of a pass, and whether the pass is over: the cache shows what our own write left, which
// is all that was to do, or is older than that write, and what a stale copy suggests has been done. The watch brings the node back when it catches
// up, which it has done after kit.MaxCacheLag; else the pass is repeated after a pause.
func (s *state) begin(node *corev1.Node, now time.Time) (known row, over bool, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := s.rows[node.UID]
	switch {
	case has == nil:
		has = &row{}
		s.rows[node.UID] = has
	case has.settled && has.own.Version == node.ResourceVersion:
		return *has, true, 0
	case has.own.Version != "" && has.own.Hides(node.ResourceVersion, now):
		return *has, true, kit.ConflictBackoff.Longest
	}
	has.passing, has.again = true, false
	if has.providerID != node.Spec.ProviderID {
		has.said = nil // it is not about a node that has got another provider ID since
	}
	return *has, false, 0
}

// answerAge returns how old an answer of the cloud may be by which a node is initialized; listing is what a listing takes. One
// that was sought after the node gave reason to be looked at will do, however long its turn took to come: a thousand nodes that
// join together are initialized from one listing. A failure is such a reason, so no answer makes a node fail twice.
//
// A node without provider ID is found by its name, which another machine may have had before. Only an answer that was sought after
// the node appeared is about this one.
func (r row) answerAge(node *corev1.Node, listing func() time.Duration, now time.Time) time.Duration {
	oldest, least := maxAnswerAge, minAnswerAge
	switch {
	case node.Spec.ProviderID != "":
	case r.appeared.IsZero():
		oldest = 0
	default:
		oldest = min(now.Sub(r.appeared), maxAnswerAge)
	}
	if r.news {
		least = min(max(listingTrustFactor*listing(), minAnswerAge), maxAnswerAge/2)
	}
	if !r.since.IsZero() {
		least = max(now.Sub(r.since), least)
	}
	return min(least, oldest)
}

// sinceReason returns how long it is since the node gave reason to be looked at, up to maxAnswerAge: how old an answer may be that must not
// be from before.
func (r row) sinceReason(now time.Time) time.Duration {
	if r.since.IsZero() {
		return 0
	}
	return min(now.Sub(r.since), maxAnswerAge)
}

// ours says of the labels of a node, as far as it is known, whether a manager that decides for the cloud wrote the values that they have.
func (r row) ours(node *corev1.Node) map[string]bool {
	var ours map[string]bool
	for label, value := range r.others {
		if has, present := node.Labels[label]; present && has == value {
			ours = with(ours, label, false)
		}
	}
	return ours
}

// with returns a map with one more entry: who reads a copy of a row has the map as it was.
func with[V any](entries map[string]V, key string, value V) map[string]V {
	more := maps.Clone(entries)
	if more == nil {
		more = map[string]V{}
	}
	more[key] = value
	return more
}

// next is what follows from how a pass ended.
type next struct {
	// pause is how long it is to the next try, zero if there is none to make.
	pause time.Duration
	// failure is what the pass failed with, nil for nothing. Since is when that began, and lasts how long ago.
	failure error
	since   time.Time
	lasts   time.Duration
	// first says that a node is left alone that was not before.
	first bool
}

// ended takes in how a pass ended. It is the one transition of a node by its passes.
func (s *state) ended(node *corev1.Node, result result, now time.Time) (follows next) {
	failure := errors.Join(result.err, result.withoutAddresses)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.rows[node.UID]
	if known == nil {
		return next{} // the node was deleted
	}
	known.passing, known.own, known.settled = false, kit.OwnWrite{}, false
	if result.wrote != "" {
		known.own = kit.OwnWrite{Version: result.wrote, At: now}
	}
	if result.others != nil {
		known.others = result.others
	}
	if result.wrote != "" && (result.kind == refreshed || result.kind == mismatched) && result.withoutAddresses == nil {
		known.writtenFrom = result.sought
	}
	switch {
	case result.kind == overtaken && (known.conflicts < kit.MaxConflicts || failure == nil):
		known.said, known.providerID = result.said, node.Spec.ProviderID
		known.conflicts++
		return next{pause: kit.ConflictBackoff.After(known.conflicts-1, nil)}
	case failure != nil:
		follows.pause = known.failed(failure, s.retries.When(node.UID), now)
		known.addressless = known.addressless || result.withoutAddresses != nil
	default:
		s.retries.Forget(node.UID)
		known.progress = progress{
			waiting: known.waiting && result.kind == waits, own: known.own,
			settled:     result.wrote != "" && !result.othersWrote && !known.again,
			writtenFrom: known.writtenFrom, denied: known.denied, missed: known.missed,
		}
	}
	switch {
	case result.kind == waits:
		follows.first = !known.waiting
		known.since, known.news, known.waiting = now, false, true
		if failure == nil {
			follows.pause = DefaultStatusUpdateFrequency // the reference asks again at the node's next change; a kubelet writes one in this time
		}
	case failure != nil:
		if known.failing.IsZero() {
			known.failing = now
		}
		known.reason, _ = reasonOf(failure)
		follows.failure, follows.since, follows.lasts = failure, known.failing, now.Sub(known.failing)
	}
	if result.kind == mismatched && result.withoutAddresses == nil {
		follows.pause = 0 // the refresh comes back to it
	}
	s.drop(node.UID)
	return follows
}

// failed notes a failure. It returns the pause before the next try, by the one that it had without what the cloud asks for: no shorter than that,
// but for a listing, which is no node's. Many share it, so soon costs nothing, and its client waits for as long as the cloud asks for.
func (r *row) failed(failure error, pause time.Duration, now time.Time) time.Duration {
	r.conflicts, r.said = 0, nil
	r.since, r.news = now, false
	if listing := (*instances.ListingError)(nil); errors.As(failure, &listing) {
		return min(pause, admission.MaxGroupPause)
	}
	if asked, ok := classify.RetryAfter(failure); ok {
		return max(pause, asked)
	}
	return pause
}

// stillFails reports whether a node has failed since a time, and the last time for a reason.
func (s *state) stillFails(node *corev1.Node, since time.Time, reason string) bool {
	known := s.get(node.UID)
	return known.failing.Equal(since) && known.reason == reason
}

// noteAnswer takes in whether the answer of the cloud fits an initialized node. It reports what has not fitted for longer than maxAnswerAge.
func (s *state) noteAnswer(node *corev1.Node, isDenied, isMissed bool, now time.Time) (denied, missed bool) {
	s.edit(node, isDenied || isMissed, func(known *row) {
		known.denied, known.missed = known.denied.after(isDenied, now), known.missed.after(isMissed, now)
		denied, missed = known.denied.lasts, known.missed.lasts
	})
	return denied, missed
}

// after returns a denial after another answer.
func (d denial) after(denied bool, now time.Time) denial {
	switch {
	case !denied:
		return denial{}
	case d.since.IsZero():
		return denial{since: now}
	default:
		return denial{d.since, d.lasts || now.Sub(d.since) >= maxAnswerAge}
	}
}
