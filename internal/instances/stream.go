package instances

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/instances/bounds"
	"github.com/mooring-ccm/mooring/internal/sleep"
	"github.com/mooring-ccm/mooring/provider"
)

// maxSilence is how long a watch may show no mark before it is taken for dead. Twice as long is about the longest pause between two watches, and what
// one has to last after its first mark to be one that works.
const maxSilence = 3 * provider.WatchMarkInterval

// errSilent ends a watch that shows no mark.
var errSilent = fmt.Errorf("no sign of life for %s", maxSilence)

// stream keeps a snapshot current by the provider's watch. What the watch has shown stays known when the watch has ended, at
// the age of its last mark. It only ever says that an instance is there: what it does not know may be on its way.
//
// See ADR 51.
type stream struct {
	watch   provider.WatchInstancesFunc
	listed  func() *snapshot // the newest listing, to share what is the same
	metrics *metrics
	// wanted is closed when the first question has been asked.
	wanted chan struct{}
	want   sync.Once
	flawed indistinguishableLog

	mu     sync.Mutex
	known  *snapshot // nil before the first mark
	marked time.Time
	every  time.Duration // between the last two marks, zero if there are no two
	live   bool          // the watch runs, and known is what it has reported
	turn   chan struct{} // closed by the next mark, or the watch's end
}

func newStream(watch provider.WatchInstancesFunc, listed func() *snapshot, metrics *metrics) *stream {
	return &stream{
		watch: watch, listed: listed, metrics: metrics, wanted: make(chan struct{}), turn: make(chan struct{}),
	}
}

// look returns what the watch has reported of nodes, if it shows all of them and its last mark is no older than notBefore. If that is too old but the
// next one is due soon, it waits for that.
func (s *stream) look(ctx context.Context, nodes []*corev1.Node, notBefore time.Time) ([]Observation, bool) {
	if s == nil {
		return nil, false
	}
	s.want.Do(func() { close(s.wanted) })
	deadline := time.Now().Add(AnswerWait) // a listing would take about as long, and cost calls
	for {
		observations, turn := s.glance(nodes, notBefore, deadline)
		if turn == nil {
			return observations, observations != nil
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-turn:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, false
		}
	}
}

// glance looks once. A channel says that it is worth looking again when that is closed.
func (s *stream) glance(nodes []*corev1.Node, notBefore, deadline time.Time) ([]Observation, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		return nil, nil
	}
	observations := make([]Observation, len(nodes))
	for i, node := range nodes {
		var err error
		if observations[i], err = s.known.find(node, s.marked); err != nil || observations[i].Status != Found {
			return nil, nil
		}
	}
	if !s.marked.Before(notBefore) {
		return observations, nil
	}
	due := s.marked.Add(s.every)
	if now := time.Now(); !s.live || s.every == 0 || due.After(deadline) || !now.Before(deadline) {
		return nil, nil
	}
	return nil, s.turn
}

// peek returns what the watch reported of a node, and when its last mark came; zero if there was none.
func (s *stream) peek(node *corev1.Node) (Observation, time.Time) {
	if s == nil {
		return Observation{}, time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		return Observation{}, time.Time{}
	}
	observation, err := s.known.find(node, s.marked)
	if err != nil {
		return Observation{}, time.Time{}
	}
	return observation, s.marked
}

// latest returns the time of the last mark if that is later than a time: what the watch did not show then is not taken from
// an older listing.
func (s *stream) latest(notBefore time.Time) time.Time {
	if s == nil {
		return notBefore
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marked.After(notBefore) {
		return s.marked
	}
	return notBefore
}

// run watches until ctx ends, again and again.
func (s *stream) run(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	failing := false
	for backoff := newBackoff(); ctx.Err() == nil; {
		lasted, err := s.follow(ctx, func() {
			if failing {
				log.Info("The watch of the cloud's instances is current again")
			}
			failing = false
		})
		if ctx.Err() != nil {
			return
		}
		s.metrics.watchEnded(err)
		if lasted {
			backoff = newBackoff()
		}
		pause := backoff.Step()
		if asked, ok := classify.RetryAfter(err); ok {
			pause = max(pause, asked)
		}
		if !failing && !errors.Is(err, provider.ErrWatchExpired) {
			log.Error(err, "The watch of the cloud's instances ended; listing them until it is current again")
			failing = true
		}
		sleep.For(ctx, pause)
	}
}

// newBackoff returns the pauses between watches: 1 s, doubling to 1 min and a bit more, so replicas do not come together.
func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 2 * maxSilence}
}

// follow watches once, and returns whether the watch lasted and why it ended. It calls current with the first mark by which it has lasted:
// one that is cut again and again right after all instances were read is neither current nor soon begun anew.
func (s *stream) follow(ctx context.Context, current func()) (lasted bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	defer s.ended()
	session, first := newSession(s), time.Time{} // the first mark
	err = s.watch(ctx, func(event provider.InstanceEvent) error {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		s.metrics.watched(event.Kind)
		if event.Kind != provider.InstancesCurrent {
			if !session.current {
				silence.Reset(maxSilence) // all instances of a large cloud take their time
			}
			return session.take(event)
		}
		silence.Reset(maxSilence)
		session.mark(time.Now())
		s.flawed.note(ctx, session.snapshot.indistinguishable)
		if now := time.Now(); first.IsZero() {
			first = now
		} else if !lasted && now.Sub(first) >= 2*maxSilence {
			lasted = true
			current()
		}
		return nil
	})
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSilent):
		err = errSilent
	case err == nil:
		err = errors.New("the provider ended it without an error")
	}
	return lasted, fmt.Errorf("watching the cloud's instances: %w", err)
}

// ended leaves what is known as it was at the last mark, or a little later.
func (s *stream) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.every = false, 0
	s.wake()
}

// wake lets callers look again that wait for a mark. The lock is held.
func (s *stream) wake() {
	close(s.turn)
	s.turn = make(chan struct{})
}

// session is one watch: what it showed is used from its first mark on.
type session struct {
	stream   *stream
	snapshot *snapshot
	current  bool
	// leftOut are the provider IDs of instances that cannot be told from others, by their names.
	leftOut      map[types.NodeName]string
	leftOutBytes int
}

func newSession(stream *stream) *session {
	return &session{stream: stream, snapshot: newSnapshot(0), leftOut: map[types.NodeName]string{}}
}

// take applies a change, or ends the watch if it cannot be true.
func (s *session) take(event provider.InstanceEvent) error {
	if event.Kind != provider.InstanceSet && event.Kind != provider.InstanceDeleted {
		return &InvalidListError{Problem: fmt.Sprintf("an event of unknown kind %d for the instance %q", event.Kind, event.Instance.ProviderID)}
	}
	id, name, set := event.Instance.ProviderID, event.Instance.NodeName, event.Kind == provider.InstanceSet
	event.Instance.InstanceMetadata = bounds.Trim(event.Instance.InstanceMetadata)
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	if s.current && name != "" { // what comes before the first mark is news of nothing
		s.leaveIn(name)
	}
	problem, err := problemOf(&event.Instance)
	switch {
	case problem != "" && set:
		s.leaveOut(&event.Instance, problem, err)
		return mostListed.allow(len(s.snapshot.byProviderID)+len(s.leftOut), s.snapshot.bytes+s.leftOutBytes)
	case problem != "":
		return nil // that one is no longer left out
	}
	if !set {
		s.snapshot.remove(id)
		return nil
	}
	s.snapshot.put(s.stream.entry(&event.Instance))
	return mostListed.allow(len(s.snapshot.byProviderID)+len(s.leftOut), s.snapshot.bytes+s.leftOutBytes)
}

// leaveOut notes an instance that cannot be told from others, until there is another event with its name. The lock is held.
func (s *session) leaveOut(instance *provider.Instance, problem string, err error) {
	name := types.NodeName(strings.Clone(string(instance.NodeName)))
	s.snapshot.indistinguishable = s.snapshot.indistinguishable.add(name, problem, err)
	id := strings.Clone(instance.ProviderID[:min(len(instance.ProviderID), bounds.MaxProviderIDBytes+1)])
	s.leftOut[name] = id
	s.snapshot.indistinguishable.count = len(s.leftOut)
	s.leftOutBytes += flawBytes + len(name) + len(id)
}

// leaveIn notes that there is something newer of an instance that may have been left out. The lock is held.
func (s *session) leaveIn(name types.NodeName) {
	if id, ok := s.leftOut[name]; ok {
		delete(s.leftOut, name)
		s.leftOutBytes -= flawBytes + len(name) + len(id)
		s.snapshot.indistinguishable = s.snapshot.indistinguishable.remove(name)
	}
}

// entry returns the entry of an instance: the one that is there already, or a new one. The lock is held.
func (s *stream) entry(instance *provider.Instance) *entry {
	for _, kept := range []*snapshot{s.known, s.listed()} {
		if kept == nil {
			continue
		}
		if e := kept.byProviderID[instance.ProviderID]; e != nil && e.shows(instance) {
			return e
		}
	}
	return newEntry(*instance)
}

// mark says that all was reported up to now.
func (s *session) mark(now time.Time) {
	stream := s.stream
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if s.current {
		stream.every = now.Sub(stream.marked)
	}
	s.current = true
	stream.known, stream.live, stream.marked = s.snapshot, true, now
	stream.metrics.marked(now, stream.known)
	stream.wake()
}
