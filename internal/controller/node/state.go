package node

import (
	"errors"
	"hash/maphash"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const (
	// minAnswerAge is how old an answer of the cloud may always be by which a node is initialized.
	minAnswerAge = 2 * time.Second
	// maxAnswerAge bounds how old it may be for a node that has been waiting for its turn.
	maxAnswerAge = time.Minute
	// listingTrustFactor is for how many times the time that it took a listing is good for nodes that have just appeared, up to maxListingTrust. The
	// listing of a large cloud costs many calls, and its nodes take longer to appear.
	listingTrustFactor = 40
	maxListingTrust    = 30 * time.Second
	// longestListingPause is the longest pause after the failure of a listing, which is no node's: many share it, so soon costs nothing, and its
	// client waits for as long as the cloud asks for.
	longestListingPause = cloud.MaxGroupPause
	// noStatementPause is the pause after an answer that says nothing of a node. The reference asks again at its next change; a kubelet writes
	// one in five minutes.
	noStatementPause = 5 * time.Minute
	// warningDelay is how long a failure has to last before it is said. What mends itself before that is nothing to act on.
	warningDelay = 2 * time.Second
)

// state is what the controller knows of nodes from one pass to the next. A node of the same name with another UID is
// another node.
type state struct {
	mu    sync.Mutex
	nodes map[string]*nodeState
	// retries are the pauses between failures, by the names of nodes.
	retries workqueue.TypedRateLimiter[string]
	// unlisted are nodes whose last pass failed because the instances could not be listed, and when that was.
	unlisted map[string]time.Time
}

// nodeState is what is known of one node. What its pointers and maps hold is never changed, so a copy is safe to read.
type nodeState struct {
	uid       types.UID
	appeared  time.Time // when this process first saw the node wait for its initialization, by its own clock
	since     time.Time // when the node last gave reason to be looked at
	news      bool      // that reason was the node itself: it appeared or changed
	waiting   bool      // a pass ended without a result
	conflicts int
	written   kit.OwnWrite
	lags      int // passes in a row that found a copy from before our last write
	// said is the answer by which a write was planned that came too late, and providerID the one that the node had by then.
	said       *instances.Observation
	providerID string
	// failing are the reasons of the failures since the last success, and when each came first.
	failing map[string]time.Time
	// addressless nodes are as the cloud says except for the addresses, which the API server has refused.
	addressless bool
	// others are the values of labels that others wrote.
	others map[string]string
	// writtenFrom is when the answer was sought by which the node was last written.
	writtenFrom time.Time
	// agreed is the fingerprint of a node and an observation that agreed, or 0 if none did.
	agreed fingerprint
}

func newState() *state {
	return &state{nodes: map[string]*nodeState{}, retries: kit.NewRetryLimiter[string](), unlisted: map[string]time.Time{}}
}

// of returns what is remembered of a node. The lock is held.
func (s *state) of(node *corev1.Node) *nodeState {
	known := s.nodes[node.Name]
	if known == nil || known.uid != node.UID {
		s.retries.Forget(node.Name)
		known = &nodeState{uid: node.UID}
		s.nodes[node.Name] = known
	}
	return known
}

// change changes what is remembered of a node. The function must not call the state.
func (s *state) change(node *corev1.Node, change func(*nodeState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.of(node))
}

// get returns a copy of what is remembered of a node, the zero value for nothing.
func (s *state) get(node *corev1.Node) nodeState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.nodes[node.Name]; known != nil && known.uid == node.UID {
		return *known
	}
	return nodeState{}
}

// forget drops a node that no longer concerns us.
func (s *state) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retries.Forget(name)
	delete(s.nodes, name)
	delete(s.unlisted, name)
}

// changed notes that a node gave reason to be looked at.
func (s *state) changed(node *corev1.Node, now time.Time) {
	s.change(node, func(known *nodeState) {
		known.since, known.news = now, true
		if known.appeared.IsZero() {
			known.appeared = now
		}
	})
}

// answerAge returns how old an answer of the cloud may be by which a node is initialized, where a listing takes a given time. One
// that was sought after the node gave reason to be looked at will do, however long its turn took to come: a thousand nodes that
// join together are initialized from one listing. A failure is such a reason, so no answer makes a node fail twice.
//
// A node without provider ID is found by its name, which another machine may have had before. Only an answer that was sought after
// the node appeared is about this one.
func (s *state) answerAge(node *corev1.Node, listing time.Duration, now time.Time) time.Duration {
	known := s.get(node)
	oldest, least := maxAnswerAge, minAnswerAge
	switch {
	case node.Spec.ProviderID != "":
	case known.appeared.IsZero():
		oldest = 0
	default:
		oldest = min(now.Sub(known.appeared), maxAnswerAge)
	}
	if known.news {
		least = min(max(listingTrustFactor*listing, minAnswerAge), maxListingTrust)
	}
	if !known.since.IsZero() {
		least = max(now.Sub(known.since), least)
	}
	return min(least, oldest)
}

// sinceReason returns how long it is since the node gave reason to be looked at, up to maxAnswerAge: how old an answer may be that must not
// be from before.
func (s *state) sinceReason(node *corev1.Node, now time.Time) time.Duration {
	known := s.get(node)
	if known.since.IsZero() {
		return 0
	}
	return min(now.Sub(known.since), maxAnswerAge)
}

// wrote notes the version of a node that our own write made. Until the cache shows it, the node is not looked at: what a
// stale copy suggests has been done.
func (s *state) wrote(node *corev1.Node, resourceVersion string, now time.Time) {
	s.change(node, func(known *nodeState) { known.written, known.lags = kit.OwnWrite{Version: resourceVersion, At: now}, 0 })
}

// stale reports whether a node from the cache is older than our own last write to it, and after which pause to look again. It doubles
// while the cache does not catch up, which it has done after kit.MaxCacheLag.
func (s *state) stale(node *corev1.Node, now time.Time) (delay time.Duration, stale bool) {
	known := s.get(node)
	if !known.written.Hides(node.ResourceVersion, now) {
		return 0, false
	}
	s.change(node, func(known *nodeState) { known.lags++ })
	return kit.ConflictBackoff.After(known.lags, nil), true
}

// succeeded ends a node's row of failures.
func (s *state) succeeded(node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retries.Forget(node.Name)
	delete(s.unlisted, node.Name)
	if known := s.nodes[node.Name]; known != nil && known.uid == node.UID {
		*known = nodeState{
			uid: known.uid, waiting: known.waiting, written: known.written, others: known.others, writtenFrom: known.writtenFrom, agreed: known.agreed,
		}
	}
}

// lacksAddresses notes that the API server has refused a node's addresses, until the next success.
func (s *state) lacksAddresses(node *corev1.Node) {
	s.change(node, func(known *nodeState) { known.addressless = true })
}

// conflicted counts a write that came too late, and keeps the answer by which it was planned. It returns the pause before the next try, and
// whether that is still worth it.
func (s *state) conflicted(node *corev1.Node, said *instances.Observation) (delay time.Duration, worthIt bool) {
	s.change(node, func(known *nodeState) {
		delay = kit.ConflictBackoff.After(known.conflicts, nil)
		known.conflicts++
		known.said, known.providerID = said, node.Spec.ProviderID
		worthIt = known.conflicts <= kit.MaxConflicts
	})
	return delay, worthIt
}

// answer returns the answer by which a write of a node was planned that came too late, if there is one. The node is planned anew by it, and the
// cloud is not asked again. It is not about a node that has got another provider ID since.
func (s *state) answer(node *corev1.Node) (instances.Observation, bool) {
	known := s.get(node)
	if known.said == nil || known.providerID != node.Spec.ProviderID {
		return instances.Observation{}, false
	}
	return *known.said, true
}

// failed counts a failure. It returns the pause before the next try, which is no shorter than the cloud asks for.
func (s *state) failed(node *corev1.Node, err error, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(node)
	known.conflicts, known.said = 0, nil
	known.since, known.news = now, false
	delay := s.retries.When(node.Name)
	delete(s.unlisted, node.Name)
	if isListing(err) {
		s.unlisted[node.Name] = now
		return min(delay, longestListingPause)
	}
	if asked, ok := cloud.RetryAfter(err); ok {
		return max(delay, asked)
	}
	return delay
}

// fails notes the reason of a failure. It returns since when the node fails for it, and whether that began now.
func (s *state) fails(node *corev1.Node, reason string, now time.Time) (since time.Time, begins bool) {
	s.change(node, func(known *nodeState) {
		if since, begins = known.failing[reason], known.failing[reason].IsZero(); begins {
			since, known.failing = now, with(known.failing, reason, now)
		}
	})
	return since, begins
}

// with returns a map with one more entry: who reads a copy of what is remembered has the map as it was.
func with[V any](entries map[string]V, key string, value V) map[string]V {
	more := maps.Clone(entries)
	if more == nil {
		more = map[string]V{}
	}
	more[key] = value
	return more
}

// stillFails reports whether a node has failed for a reason since a time.
func (s *state) stillFails(node *corev1.Node, reason string, since time.Time) bool {
	return s.get(node).failing[reason].Equal(since)
}

func isListing(err error) bool {
	var listing *instances.ListingError
	return errors.As(err, &listing)
}

// listed returns the nodes whose last pass failed before a listing began that has succeeded, each of them once.
func (s *state) listed(began time.Time) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, failed := range s.unlisted {
		if failed.Before(began) {
			names = append(names, name)
			delete(s.unlisted, name)
		}
	}
	return names
}

// recordAgreement notes that a node and what the cloud said of it agree.
func (s *state) recordAgreement(node *corev1.Node, agreed fingerprint) {
	s.change(node, func(known *nodeState) { known.agreed = agreed })
}

// wroteFrom notes that a node was written by an answer that was sought at a time.
func (s *state) wroteFrom(node *corev1.Node, sought time.Time) {
	s.change(node, func(known *nodeState) { known.writtenFrom = sought })
}

// isWrittenFrom reports whether a node was written by an answer that was sought at a time, or a later one. What differs from it since, others have
// written.
func (s *state) isWrittenFrom(node *corev1.Node, sought time.Time) bool {
	known := s.get(node)
	return !known.writtenFrom.IsZero() && !known.writtenFrom.Before(sought)
}

// othersWrote notes that others wrote the value that a label of a node has.
func (s *state) othersWrote(node *corev1.Node, label string) {
	s.change(node, func(known *nodeState) { known.others = with(known.others, label, node.Labels[label]) })
}

// ours says of the labels of a node, as far as it is known, whether a manager that decides for the cloud wrote the values that they have.
func (s *state) ours(node *corev1.Node) map[string]bool {
	known := s.get(node)
	if len(known.others) == 0 {
		return nil
	}
	ours := map[string]bool{}
	for label, value := range known.others {
		if has, present := node.Labels[label]; present && has == value {
			ours[label] = false
		}
	}
	return ours
}

// waited notes a pass that ended without a result, by an error that is no failure of the node or without one. It returns the pause before the
// next one, and whether this was the first.
func (s *state) waited(node *corev1.Node, err error, now time.Time) (delay time.Duration, first bool) {
	delay = noStatementPause
	if err != nil {
		delay = s.failed(node, err, now)
	} else {
		s.succeeded(node)
	}
	s.change(node, func(known *nodeState) {
		first, known.waiting = !known.waiting, true
		known.since, known.news = now, false
	})
	return delay, first
}

// fingerprint identifies all that decides what a refresh does with a node: whatever desired.go and plan.go read of it, and what
// the cloud said. Two that differ have equal fingerprints once in 2^64 cases, and then only until either changes.
//
// It stands for a copy of the node, which would keep a second version of each in memory.
type fingerprint uint64

// seed is the process's own: fingerprints mean nothing to another one.
var seed = maphash.MakeSeed()

// fingerprintOf returns the fingerprint of an initialized node with an observation. It allocates nothing.
func fingerprintOf(node *corev1.Node, said instances.Observation) fingerprint {
	var hash maphash.Hash
	hash.SetSeed(seed)
	maphash.WriteComparable(&hash, [...]string{string(node.UID), node.Spec.ProviderID})
	labels := [...]uint64{uint64(len(node.Labels)), 0}
	for key, value := range node.Labels { // in any order
		labels[1] += maphash.Comparable(seed, [...]string{key, value})
	}
	maphash.WriteComparable(&hash, labels)
	for i := range node.Spec.Taints {
		maphash.WriteComparable(&hash, node.Spec.Taints[i].Key)
	}
	for _, key := range [...]string{
		cloudproviderapi.AnnotationAlphaProvidedIPAddr, ownership.AnnotationIgnore, ownership.AnnotationProven,
	} {
		value, present := node.Annotations[key]
		maphash.WriteComparable(&hash, present)
		maphash.WriteComparable(&hash, value)
	}
	hashAddresses(&hash, node.Status.Addresses)

	metadata := &said.Metadata
	maphash.WriteComparable(&hash, said.Status)
	maphash.WriteComparable(&hash, [...]string{said.Answered, metadata.ProviderID, metadata.InstanceType, metadata.Zone, metadata.Region})
	hashAddresses(&hash, metadata.NodeAddresses)
	return fingerprint(hash.Sum64())
}

// hashAddresses depends on their order, which is the cloud's.
func hashAddresses(hash *maphash.Hash, addresses []corev1.NodeAddress) {
	maphash.WriteComparable(hash, len(addresses))
	for i := range addresses {
		maphash.WriteComparable(hash, addresses[i])
	}
}
