package node

import (
	"errors"
	"hash/maphash"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/node/contest"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// minFresh is how old an answer of the cloud may always be by which a node is initialized.
	minFresh = 2 * time.Second
	// maxFresh bounds how old it may be for a node that has been waiting for its turn.
	maxFresh = time.Minute
	// worth is for how many times the time that it took a listing is good for nodes that have just appeared, up to maxWorth. The
	// listing of a large cloud costs many calls, and its nodes take longer to appear.
	worth    = 40
	maxWorth = 30 * time.Second
	// maxConflicts is how many writes in a row may come too late before that counts as a failure.
	maxConflicts = 6
)

var (
	// failureBackoff are the pauses after failures for a node. That after an error that repeating cannot help is not longer because what
	// does help, such as new credentials, comes without notice.
	failureBackoff = kit.Backoff{First: 500 * time.Millisecond, Longest: 4 * time.Minute, Terminal: time.Minute}
	// listingBackoff are the pauses after failures for a node that are those of a listing. The first listing that succeeds ends them.
	listingBackoff = kit.Backoff{First: 500 * time.Millisecond, Longest: 30 * time.Second}
	// conflictBackoff are the pauses after a write that came too late, and before a node is looked at again whose last write the cache
	// does not show yet: the watch itself brings the node back when it does.
	conflictBackoff = kit.Backoff{First: 20 * time.Millisecond, Longest: 5 * time.Second}
)

// state is what the controller knows of nodes from one pass to the next. A node of the same name with another UID is
// another node.
type state struct {
	mu    sync.Mutex
	nodes map[string]*nodeState
	// unlisted are nodes whose last pass failed because the instances could not be listed, and when that was.
	unlisted map[string]time.Time
}

type nodeState struct {
	uid       types.UID
	appeared  time.Time // when this process first saw the node wait for its initialization, by its own clock
	since     time.Time // when the node last gave reason to be looked at
	news      bool      // that reason was the node itself: it appeared or changed
	failures  int
	conflicts int
	written   string
	writtenAt time.Time
	lags      int // passes in a row that found a copy from before our last write
	// addressless nodes are as the cloud says except for the addresses, which the API server has refused.
	addressless bool
	// withoutIPs is when the first of the cloud's answers was sought that leave the node no IP, zero if the last one leaves it some.
	withoutIPs time.Time
	// contests are what became of our last writes of fields that others write, too.
	contests contest.Fields
	// agreed is the fingerprint of a node and an observation that agreed, or 0 if none did.
	agreed fingerprint
}

func newState() *state {
	return &state{nodes: map[string]*nodeState{}, unlisted: map[string]time.Time{}}
}

// of returns what is remembered of a node. The lock is held.
func (s *state) of(node *corev1.Node) *nodeState {
	known := s.nodes[node.Name]
	if known == nil || known.uid != node.UID {
		known = &nodeState{uid: node.UID}
		s.nodes[node.Name] = known
	}
	return known
}

// forget drops a node that is no concern of ours any more.
func (s *state) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, name)
	delete(s.unlisted, name)
}

// changed notes that a node gave reason to be looked at.
func (s *state) changed(node *corev1.Node, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(node)
	known.since, known.news = now, true
	if known.appeared.IsZero() {
		known.appeared = now
	}
}

// fresh returns how old an answer of the cloud may be by which a node is initialized, where a listing takes a given time. One
// that was sought after the node gave reason to be looked at will do, however long its turn took to come: a thousand nodes that
// join together are initialized from one listing. A failure is such a reason, so that no answer makes a node fail twice.
//
// A node without provider ID is found by its name, which another machine may have had before. Only an answer that was sought after
// the node appeared is about this one.
func (s *state) fresh(node *corev1.Node, listing time.Duration, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.nodes[node.Name]
	if known == nil || known.uid != node.UID {
		known = &nodeState{}
	}
	oldest, least := maxFresh, minFresh
	switch {
	case node.Spec.ProviderID != "":
	case known.appeared.IsZero():
		oldest = 0
	default:
		oldest = min(now.Sub(known.appeared), maxFresh)
	}
	if known.news {
		least = min(max(worth*listing, minFresh), maxWorth)
	}
	if !known.since.IsZero() {
		least = max(now.Sub(known.since), least)
	}
	return min(least, oldest)
}

// sinceReason returns how long it is since the node gave reason to be looked at, up to maxFresh: how old an answer may be that must not
// be from before.
func (s *state) sinceReason(node *corev1.Node, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.nodes[node.Name]
	if known == nil || known.uid != node.UID || known.since.IsZero() {
		return 0
	}
	return min(now.Sub(known.since), maxFresh)
}

// wrote notes the version of a node that our own write made. Until the cache shows it, the node is not looked at: what a
// stale copy suggests has been done.
func (s *state) wrote(node *corev1.Node, resourceVersion string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(node)
	known.written, known.writtenAt, known.lags = resourceVersion, now, 0
}

// stale reports whether a node from the cache is older than our own last write to it, and after which pause to look again. It doubles
// while the cache does not catch up, which it has done after kit.MaxCacheLag.
func (s *state) stale(node *corev1.Node, now time.Time) (delay time.Duration, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.nodes[node.Name]
	if known == nil || known.uid != node.UID || known.written == "" {
		return 0, false
	}
	if !kit.Older(node.ResourceVersion, known.written) || now.Sub(known.writtenAt) >= kit.MaxCacheLag {
		known.lags = 0
		return 0, false
	}
	delay = conflictBackoff.After(known.lags, nil)
	known.lags++
	return delay, true
}

// succeeded ends a node's row of failures.
func (s *state) succeeded(node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unlisted, node.Name)
	if known := s.nodes[node.Name]; known != nil && known.uid == node.UID {
		*known = nodeState{
			uid: known.uid, written: known.written, writtenAt: known.writtenAt, withoutIPs: known.withoutIPs, contests: known.contests, agreed: known.agreed,
		}
	}
}

// lacksAddresses notes that the API server has refused a node's addresses, until the next success.
func (s *state) lacksAddresses(node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(node).addressless = true
}

// addressless reports whether the API server has refused the addresses of a node.
func (s *state) addressless(node *corev1.Node) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.nodes[node.Name]
	return known != nil && known.uid == node.UID && known.addressless
}

// losesIPs notes that an answer that was sought at some time leaves a node no IP. What agreed before is compared anew, so that
// the next answer that leaves it some is noted.
func (s *state) losesIPs(node *corev1.Node, sought time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(node)
	known.agreed = 0
	if known.withoutIPs.IsZero() {
		known.withoutIPs = sought
	}
}

// keepsIPs notes that an answer leaves a node an IP.
func (s *state) keepsIPs(node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.nodes[node.Name]; known != nil && known.uid == node.UID {
		known.withoutIPs = time.Time{}
	}
}

// lostIPs reports whether an answer that was sought before some time left the node no IP, and none since left it one.
func (s *state) lostIPs(node *corev1.Node, sought time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.nodes[node.Name]
	return known != nil && known.uid == node.UID && !known.withoutIPs.IsZero() && known.withoutIPs.Before(sought)
}

// conflicted counts a write that came too late. It returns the pause before the next try, and whether that is still worth it.
func (s *state) conflicted(node *corev1.Node) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(node)
	known.conflicts++
	return conflictBackoff.After(known.conflicts-1, nil), known.conflicts <= maxConflicts
}

// failed counts a failure. It returns the pause before the next try.
func (s *state) failed(node *corev1.Node, err error, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(node)
	known.conflicts = 0
	delay := pauseAfter(known.failures, err)
	known.failures++
	known.since, known.news = now, false
	delete(s.unlisted, node.Name)
	if isListing(err) {
		s.unlisted[node.Name] = now
	}
	return delay
}

// pauseAfter returns the pause after a failure. That of a listing is no node's: many nodes share it, so that soon costs nothing, and its
// client waits for as long as the cloud asks for.
func pauseAfter(before int, err error) time.Duration {
	if isListing(err) && !provider.IsTerminal(err) {
		return listingBackoff.After(before, nil)
	}
	if isListing(err) {
		return max(failureBackoff.After(before, nil), failureBackoff.Terminal)
	}
	return failureBackoff.After(before, err)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(node).agreed = agreed
}

// agrees reports whether a node and what the cloud said of it are as they were when they last agreed.
func (s *state) agrees(node *corev1.Node, current fingerprint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.nodes[node.Name]
	return known != nil && known.uid == node.UID && known.agreed == current
}

// reversed takes in what a plan would write to a node, and returns the fields that are left alone from now on.
func (s *state) reversed(node *corev1.Node, fields map[string]string, now time.Time) []contest.Reversal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(node).contests.Reversed(fields, now)
}

// wroteFields notes what we have written to an initialized node.
func (s *state) wroteFields(node *corev1.Node, fields map[string]string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(node).contests.Wrote(fields, now)
}

// paused returns the fields of a node that are left alone now, and how long it is until the first of them may be written again.
func (s *state) paused(node *corev1.Node, now time.Time) (fields map[string]bool, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.nodes[node.Name]; known != nil && known.uid == node.UID {
		return known.contests.Paused(now), known.contests.Pause(now)
	}
	return nil, 0
}

// waited counts a pass that ended without a result and without a failure. It returns the pause before the next one, and
// whether this was the first.
func (s *state) waited(node *corev1.Node, now time.Time) (delay time.Duration, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(node)
	delay, first = failureBackoff.After(known.failures, nil), known.failures == 0
	known.failures++
	known.since, known.news = now, false
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
	var print fingerprint
	print = print.with(string(node.UID)).with(node.Spec.ProviderID).withMap(node.Labels)
	for i := range node.Spec.Taints {
		print = print.with(node.Spec.Taints[i].Key)
	}
	for _, key := range [...]string{
		cloudproviderapi.AnnotationAlphaProvidedIPAddr, ownership.AnnotationIgnore, ownership.AnnotationProven, annotationCloudLabels,
	} {
		value, present := node.Annotations[key]
		print = print.withNumber(boolToInt(present)).with(value)
	}
	print = print.withAddresses(node.Status.Addresses)

	metadata := &said.Metadata
	print = print.withNumber(int(said.Status)).withNumber(boolToInt(said.Listed < 0)).with(said.Answered).with(metadata.ProviderID)
	print = print.with(metadata.InstanceType).with(metadata.Zone).with(metadata.Region)
	return print.withAddresses(metadata.NodeAddresses).withNumber(boolToInt(metadata.AdditionalLabels == nil)).withMap(metadata.AdditionalLabels)
}

// with returns the fingerprint of what came before and a text.
func (f fingerprint) with(text string) fingerprint {
	type step struct {
		before fingerprint
		text   string
	}
	return fingerprint(maphash.Comparable(seed, step{f, text}))
}

func (f fingerprint) withNumber(number int) fingerprint {
	type step struct {
		before fingerprint
		number int
	}
	return fingerprint(maphash.Comparable(seed, step{f, number}))
}

// withMap does not depend on the order of the entries.
func (f fingerprint) withMap(entries map[string]string) fingerprint {
	var sum fingerprint
	for key, value := range entries {
		sum += fingerprint(0).with(key).with(value)
	}
	return f.withNumber(len(entries)).withNumber(int(sum))
}

// withAddresses depends on their order, which is the cloud's.
func (f fingerprint) withAddresses(addresses []corev1.NodeAddress) fingerprint {
	f = f.withNumber(len(addresses))
	for i := range addresses {
		f = f.with(string(addresses[i].Type)).with(addresses[i].Address)
	}
	return f
}

func boolToInt(value bool) int {
	if value {
		return 1
	}
	return 0
}
