package service

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

const (
	// DefaultFirstRetry is the pause after the first failure for a Service, as in the reference; it doubles with each further one.
	DefaultFirstRetry = 5 * time.Second

	// longestCleanup is the longest pause between tries to delete a load balancer: the reference looks every 30 seconds, too, at each Service
	// that is to be cleaned up.
	longestCleanup = 30 * time.Second
	// absenceTries is how often in a row a deletion has to fail until it is believed that there is nothing to delete.
	absenceTries = 3
	// shortestRetry is the shortest pause that a plugin gets by an api.RetryError, and the time between two looks whether the list of load balancers
	// is there.
	shortestRetry = time.Second
	// apiRetry is the pause after the API server did not list the nodes, or has not kept the record.
	apiRetry = 10 * time.Second
)

// states is what the controller remembers of Services from one pass to the next. It is lost with the process, and nothing
// depends on its not being: what has to last is on the Service and in the cloud.
//
// Others read copies. They change a state by the transitions of this file only, each of which is named after what has happened.
type states struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]*state
}

// state is what is remembered under one name. The targets of its pointers never change, so a copy is safe to read.
type state struct {
	// made is what was made in the cloud, nil if nothing was.
	made *made
	// madeAt is when the plugin was last called for it.
	madeAt time.Time
	// seenAt is when the cloud was last asked how it is.
	seenAt time.Time
	// removed is the UID of the Service whose load balancer has been deleted, while its finalizer is still there.
	removed types.UID
	// ownWrite is the Service as our own last write returned it.
	ownWrite *corev1.Service
	// drift is what the last comparison with the cloud found and has not been repaired yet.
	drift []string
	// differs is what the last comparison found, repairs how often in a row it was the same, and repairedAt when a repair was last
	// queued for it.
	differs    string
	repairs    int
	repairedAt time.Time
	// failure is nil unless the last pass failed.
	failure *failure
	// retargetFailures is how the targets fare while the Service itself cannot be ensured.
	retargetFailures retargetFailures
	// conditionAt is when a failure was last written to the condition.
	conditionAt time.Time
	// predecessors are the Services that had the name before and whose load balancers are still to be deleted. OwnFirst says that the deletion of one
	// was tried last. Where both are due, the Service then comes first.
	predecessors []predecessor
	ownFirst     bool
}

func newStates() *states { return &states{byName: map[types.NamespacedName]*state{}} }

// get returns a copy of the state of a Service, and whether there is one.
func (s *states) get(key types.NamespacedName) (known state, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, found := s.byName[key]; found {
		return *known, true
	}
	return state{}, false
}

// has reports whether anything is remembered under a name.
func (s *states) has(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.byName[key]
	return found
}

// all returns a copy of everything that is remembered.
func (s *states) all() map[types.NamespacedName]state {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := make(map[types.NamespacedName]state, len(s.byName))
	for key, known := range s.byName {
		copied[key] = *known
	}
	return copied
}

// madeFor returns the UIDs of the Services that something was made for.
func (s *states) madeFor() (uids []types.UID) {
	for _, known := range s.all() {
		if known.made != nil {
			uids = append(uids, known.made.service.UID)
		}
		for _, before := range known.predecessors {
			uids = append(uids, before.service.UID)
		}
	}
	return uids
}

// counts returns how many load balancers are as they should be, and how many are not yet.
func (s *states) counts() (provided, unfinished int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.byName {
		if known.made != nil && known.made.ensured && known.failure == nil {
			provided++
		} else if known.made != nil || known.failure != nil || len(known.predecessors) > 0 {
			unfinished++
		}
	}
	return provided, unfinished
}

// change changes the state of a Service. Only the transitions below call it. The function must not call states.
func (s *states) change(key types.NamespacedName, change func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.byName[key]
	if !found {
		known = &state{}
		s.byName[key] = known
	}
	change(known)
}

// forget drops the state of a Service.
func (s *states) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, key)
}

// caughtUp says that the cache holds what our last write returned, or something newer.
func (s *states) caughtUp(key types.NamespacedName) {
	s.change(key, func(known *state) { known.ownWrite = nil })
}

// nameReused says that the Service of a name is another one than that for which something was made.
func (s *states) nameReused(key types.NamespacedName) {
	s.change(key, func(known *state) {
		before := predecessor{service: known.made.service}
		if known.failure != nil && known.failure.intent == withdraw {
			due := *known.failure
			due.retryAt, before.failure = time.Time{}, &due
		}
		*known = state{predecessors: append(slices.Clone(known.predecessors), before), ownFirst: before.failure != nil}
	})
}

// predecessorFailed says that the load balancer of a predecessor could not be deleted, and returns what failed does.
func (s *states) predecessorFailed(key types.NamespacedName, uid types.UID, err error, pauses backoff) (delay time.Duration, news bool) {
	s.change(key, func(known *state) {
		known.predecessors, known.ownFirst = slices.Clone(known.predecessors), true
		before := known.predecessor(uid)
		next := failure{intent: withdraw}
		if before.failure != nil {
			next = *before.failure
		}
		next, delay, news = next.next(err, pauses, time.Now())
		before.failure = &next
	})
	return delay, news
}

// hadTurn says that a Service has had its turn. Its predecessors are next.
func (s *states) hadTurn(key types.NamespacedName) {
	if known, _ := s.get(key); known.ownFirst {
		s.change(key, func(known *state) { known.ownFirst = false })
	}
}

// ensuring says, before the plugin is called, that there may be something in the cloud from now on.
func (s *states) ensuring(key types.NamespacedName, service *corev1.Service, latest *targetSet) {
	s.change(key, func(known *state) {
		attempt := &made{service: service, inputs: inputsOf(service), failing: true}
		if before := known.made; before != nil && before.service.UID == service.UID {
			attempt.lastEnsured, attempt.status = before.lastEnsured, before.status
			if maps.Equal(before.targets, latest.members) { // else an Ensure that fails leaves it open which of them it has
				attempt.targets = before.targets
			}
		}
		known.made, known.retargetFailures.first = attempt, true
		known.removed = ""
	})
}

// ensured says that the plugin has made the load balancer of a Service, with these targets.
func (s *states) ensured(key types.NamespacedName, service *corev1.Service, targets *targetSet, done result) {
	s.change(key, func(known *state) {
		now := time.Now()
		known.made = &made{service: service, inputs: inputsOf(service), ensured: true, lastEnsured: service,
			targets: targets.members, writtenTargets: targets, wholeAt: now, status: done.status,
			unpublished: done.status != nil && !done.echo}
		known.madeAt, known.drift = now, nil
	})
}

// adopted says that the leader before has made a load balancer, and that it is as its Service asks.
func (s *states) adopted(key types.NamespacedName, made *made) {
	s.change(key, func(known *state) { known.made = made })
}

// retargeted says that the plugin has changed the targets of a load balancer to these.
func (s *states) retargeted(key types.NamespacedName, act action, targets *targetSet) {
	s.change(key, func(known *state) {
		now := time.Now()
		changed := *known.made
		if changed.ensured {
			changed.service = act.service
		}
		changed.targets, changed.writtenTargets, changed.unlisted, changed.denial = targets.members, targets, nil, denial{}
		if act.change == nil {
			changed.wholeAt = now
		}
		known.made, known.madeAt = &changed, now
	})
}

// retargetFailed says that it is open what the targets are now. These are written by the next Ensure, and others before it. While the cloud does not find
// the load balancer, an Ensure might make a second one, so the same is tried again.
func (s *states) retargetFailed(key types.NamespacedName, act action, targets *targetSet) {
	s.change(key, func(known *state) {
		changed := *known.made
		changed.ensured = changed.ensured && changed.denial.answers > 0
		changed.targets, changed.writtenTargets, changed.unlisted = nil, nil, nil
		if !act.onlyTargets {
			changed.denial.targets = targets.members
		}
		known.made = &changed
	})
}

// notFound says that the cloud does not find a load balancer whose targets were to be changed. The next look of the drift check counts that
// answer, too. It reports whether it is time to tell.
func (s *states) notFound(key types.NamespacedName, targets *targetSet) (news bool) {
	s.change(key, func(known *state) {
		changed := *known.made
		changed.writtenTargets, changed.denial = nil, changed.denial.after(time.Now())
		changed.denial.targets = targets.members
		known.made, news = &changed, changed.denial.isNews()
	})
	return news
}

// removed says that a load balancer is deleted. Current is the Service that has the name now, nil if none has.
func (s *states) removed(key types.NamespacedName, service, current *corev1.Service) {
	s.change(key, func(known *state) {
		if known.predecessor(service.UID) != nil {
			known.predecessors = slices.DeleteFunc(slices.Clone(known.predecessors), func(p predecessor) bool { return p.service.UID == service.UID })
			if len(known.predecessors) == 0 && known.failure != nil && known.failure.awaits {
				known.failure = nil
			}
			return
		}
		known.made, known.drift = nil, nil
		if current != nil && service.UID == current.UID {
			known.removed = service.UID
		}
	})
}

// wrote says that a Service was written, and what it is now.
func (s *states) wrote(key types.NamespacedName, act action, service *corev1.Service) {
	s.change(key, func(known *state) {
		known.ownWrite = service
		switch {
		case act.verb != verbPublish:
		case act.failed:
			known.conditionAt = time.Now()
		case known.made != nil:
			published := *known.made
			published.unpublished, known.made = false, &published
		}
	})
}

// succeeded ends a Service's row of failures, and forgets a Service that no longer has a load balancer. Service is nil if it is gone.
func (s *states) succeeded(key types.NamespacedName, service *corev1.Service) {
	known, found := s.get(key)
	switch {
	case !found:
	case known.made == nil && len(known.predecessors) == 0 && (service == nil || !hasFinalizer(service) && known.ownWrite == nil):
		s.forget(key)
	case known.failure != nil:
		s.change(key, func(known *state) { known.failure, known.retargetFailures = nil, retargetFailures{} })
	}
}

// outdated says that a write came too late, and returns how many in a row did.
func (s *states) outdated(key types.NamespacedName, want desired) (conflicts int) {
	s.change(key, func(known *state) {
		if known.failure == nil {
			known.failure = &failure{intent: want.intent, inputs: want.inputs}
		}
		next := *known.failure
		next.conflicts++
		known.failure, known.ownWrite, conflicts = &next, nil, next.conflicts
	})
	return conflicts
}

// failed says that a pass has failed. It returns the pause before the next one, and whether an event is due: the first time, when
// the reason changes, and every kit.EventInterval.
func (s *states) failed(key types.NamespacedName, want desired, err error, pauses backoff) (delay time.Duration, news bool) {
	now := time.Now()
	s.change(key, func(known *state) {
		next := failure{intent: want.intent, inputs: want.inputs}
		if known.continues(want.intent, want.inputs) {
			next = *known.failure
		}
		next, delay, news = next.next(err, pauses.of(want.intent), now)
		known.failure = &next
		// The targets wait, too, for as long as the cloud asks.
		if wait, asked := cloud.RetryAfter(err); asked {
			known.retargetFailures.retryAt, known.retargetFailures.targets = kit.Later(known.retargetFailures.retryAt, now.Add(wait)), nil
		}
	})
	return delay, news
}

// retryNow ends the pause of a Service that has failed, and reports whether there was one.
func (s *states) retryNow(key types.NamespacedName) (due bool) {
	if _, found := s.get(key); !found {
		return false
	}
	s.change(key, func(known *state) {
		switch {
		case known.failure != nil:
			again := *known.failure
			again.retryAt = time.Now()
			known.failure, due = &again, true
		case known.made != nil && known.made.ensured:
			known.drift, due = []string{"the provider reports that it has changed"}, true
		}
	})
	return due
}

// targetsFollowed says that the targets were changed while their Service waits.
func (s *states) targetsFollowed(key types.NamespacedName) {
	s.change(key, func(known *state) { known.retargetFailures = retargetFailures{} })
}

// targetsFailed says that they could not be changed. It returns the pause before the next try, and whether an event is due.
func (s *states) targetsFailed(key types.NamespacedName, targets *targetSet, err error, pauses backoff) (delay time.Duration, news bool) {
	now, reason := time.Now(), reasonOf(err)
	s.change(key, func(known *state) {
		last := &known.retargetFailures
		delay = pauses.after(last.count, err, string(known.made.service.UID))
		last.count++
		last.retryAt, last.first, last.targets = now.Add(delay), false, targets.members
		if last.reason != reason || now.Sub(last.eventAt) >= kit.EventInterval {
			last.reason, last.eventAt, news = reason, now, true
		}
	})
	return delay, news
}

// The transitions of the drift check name what was made when it began to look. If that has changed since, they do nothing.

// looked says that the cloud is asked about one load balancer.
func (s *states) looked(key types.NamespacedName) {
	s.change(key, func(known *state) { known.seenAt = time.Now() })
}

// shown keeps what the cloud shows the first time after an Ensure, and reports whether it was kept.
func (s *states) shown(key types.NamespacedName, looked, with *made) (kept bool) {
	s.change(key, func(known *state) {
		if kept = known.made == looked; kept {
			known.made = with
		}
	})
	return kept
}

// denied says that the cloud was asked about a load balancer and does not find it. It returns the row of such answers, with this one.
func (s *states) denied(key types.NamespacedName, looked *made) (row denial, kept bool) {
	s.change(key, func(known *state) {
		if kept = known.made == looked; kept {
			changed := *looked
			changed.denial = looked.denial.after(time.Now())
			known.made, row = &changed, changed.denial
		}
	})
	return row, kept
}

// found says that the cloud finds a load balancer again that it did not find before. It returns what was made.
func (s *states) found(key types.NamespacedName, looked *made) (now *made) {
	now = looked
	s.change(key, func(known *state) {
		if known.made == looked {
			changed := *looked
			changed.denial = denial{}
			known.made, now = &changed, &changed
			if known.failure != nil && known.failure.reason == ReasonNotFound {
				due := *known.failure
				due.retryAt, known.failure = time.Now(), &due
			}
		}
	})
	return now
}

// compared says in which ways the cloud differs, and whether that is to be repaired. It reports whether it still is, and whether the Service has to
// say something else: that the repairs are over, or that nothing differs after them.
func (s *states) compared(key types.NamespacedName, looked *made, what string, differ []string, repair bool) (repairs, news bool) {
	s.change(key, func(known *state) {
		switch {
		case known.made != looked:
			repair = false
			return
		case len(differ) == 0:
			known.differs, known.repairs = "", 0
		case known.differs == what:
			known.repairs++
		default:
			known.differs, known.repairs = what, 1
		}
		if repair {
			known.drift, known.repairedAt = differ, time.Now()
			return
		}
		still := ""
		if len(differ) > 0 {
			still = kit.EventMessage(fmt.Sprintf("The load balancer still differs after %d repairs: %s", maxRepairs, strings.Join(differ, ", ")))
		}
		if news = looked.stillDiffers != still; news {
			changed := *looked
			changed.stillDiffers = still
			known.made = &changed
		}
	})
	return repair, news
}

// failure is a row of passes that failed for one state of a Service.
type failure struct {
	// intent and inputs are what the passes were for. Once they are different, it is worth trying again at once.
	intent intent
	inputs inputs
	// since is when the first of them failed. Count is how many did, without those for which the plugin itself said when to try again, and all is
	// how many with them.
	since      time.Time
	count, all int
	// conflicts is how many writes in a row came too late.
	conflicts int
	// absent is how many deletions in a row failed though there was no load balancer to be seen.
	absent int
	// reason is the reason of the last one, and eventAt is when an event last reported it.
	reason  string
	eventAt time.Time
	// retryAt is when the next pass is due.
	retryAt time.Time
	// err is the last error. Awaits says that it only waited for the load balancer of a predecessor to be deleted.
	err    error
	awaits bool
}

// next returns the row with one more failure, the pause before the next try, and whether an event is due: the first time, when the
// reason changes, and every kit.EventInterval.
func (f failure) next(err error, pauses backoff, now time.Time) (next failure, delay time.Duration, news bool) {
	reason := reasonOf(err)
	f.conflicts = 0
	if (reason == ReasonWriteFailed) != (f.reason == ReasonWriteFailed) {
		f.count = 0 // the cloud and the API server each have a row: what the other did not bear is over
	}
	if f.all++; f.all == 1 {
		f.since = now
	}
	if f.absent++; !errors.Is(err, errAbsent) {
		f.absent = 0
	}
	delay = pauses.after(f.count, err, string(f.inputs.uid))
	var retry *cloudproviderapi.RetryError
	if !errors.As(err, &retry) { // a fixed delay does not count toward one that grows
		f.count++
	}
	if f.reason != reason || now.Sub(f.eventAt) >= kit.EventInterval {
		f.reason, f.eventAt, news = reason, now, true
	}
	f.retryAt, f.err, f.awaits = now.Add(delay), err, errors.Is(err, errPredecessor)
	return f, delay, news
}

// retargetFailures is a row of changes of the targets that failed while their Service could not be ensured. Zero: the last one did not.
type retargetFailures struct {
	// count is how many failed.
	count int
	// reason is the reason of the last one, and eventAt is when an event last reported it.
	reason  string
	eventAt time.Time
	// retryAt is when these targets, as made.targets, are due again. Others are due at once, as in the reference. Nil: all wait.
	retryAt time.Time
	targets map[string]string
	// first says that the Service was tried last. Where both are due, the targets then come first.
	first bool
}

// holds reports whether the targets that are wanted wait for their next try.
func (f retargetFailures) holds(want desired) bool {
	return f.targets == nil || want.settled.servedBy(f.targets) || want.latest.servedBy(f.targets)
}

// isOf reports whether passes for an intent and inputs do the same as the failed passes.
func (f *failure) isOf(intent intent, in inputs) bool {
	return f.intent == intent && len(in.changes(f.inputs)) == 0
}

// predecessor is a Service that is gone and whose name another one has now, while its load balancer is still to be deleted.
//
// See ADR 93.
type predecessor struct {
	service *corev1.Service
	// failure is nil unless its deletion has failed.
	failure *failure
}

// waitsForRetry returns how long its deletion has yet to wait.
func (b predecessor) waitsForRetry(now time.Time) time.Duration {
	if b.failure == nil {
		return 0
	}
	return b.failure.retryAt.Sub(now)
}

// predecessor returns the one with a UID; nil if there is none.
func (s state) predecessor(uid types.UID) *predecessor {
	if at := slices.IndexFunc(s.predecessors, func(p predecessor) bool { return p.service.UID == uid }); at >= 0 {
		return &s.predecessors[at]
	}
	return nil
}

// knows reports whether this process has made or removed the load balancer of this very Service.
func (s state) knows(service *corev1.Service) bool {
	if service == nil {
		return s.made != nil
	}
	return (s.made != nil && s.made.service.UID == service.UID) || (s.removed != "" && s.removed == service.UID)
}

// newest returns the newer of what the cache holds and what our own last write returned: a pass on a copy that is older than
// our own write would do again what is done.
func (s state) newest(cached *corev1.Service) *corev1.Service {
	if s.ownWrite == nil || cached == nil || s.ownWrite.UID != cached.UID {
		return cached
	}
	if kit.Older(cached.ResourceVersion, s.ownWrite.ResourceVersion) {
		return s.ownWrite
	}
	return cached
}

// predecessorsDue returns in how long the first of the predecessors is due, zero if there is none.
func (s state) predecessorsDue(now time.Time) (due time.Duration) {
	for _, before := range s.predecessors {
		due = soonest(due, max(before.waitsForRetry(now), time.Millisecond))
	}
	return due
}

// soonest returns the shorter of two waits; zero is none.
func soonest(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// waitsForRetry returns how long a pass has yet to wait that continues the row that failed.
func (s state) waitsForRetry(intent intent, in inputs, now time.Time) time.Duration {
	if !s.continues(intent, in) {
		return 0
	}
	return s.failure.retryAt.Sub(now)
}

// continues reports whether passes for an intent and inputs continue the row that failed: they do the same.
func (s state) continues(intent intent, in inputs) bool {
	return s.failure != nil && s.failure.isOf(intent, in)
}

// failureLasts reports whether a Service has failed for long enough to say so in its condition, and not only by an event: with the second pass
// in a row, or, where a failure was shown and mended a moment ago, when it has gone on for as long as the longest pause: a call that fails every
// other time would cost two writes each time, and the reference makes none.
func (s state) failureLasts(now time.Time) bool {
	switch {
	case s.failure == nil || s.failure.all < 2:
		return false
	case now.Sub(s.conditionAt) >= kit.EventInterval:
		return true
	default:
		return now.Sub(s.failure.since) >= kit.LongestRetry
	}
}

// backoff is how long to wait after failures.
type backoff struct {
	first, longest time.Duration
	// asked bounds the pause that an api.RetryError asks for; zero: nothing does.
	asked time.Duration
	// jitter says that pauses have some.
	jitter bool
}

// of returns the pauses between passes for an intent.
func (b backoff) of(intent intent) backoff {
	if intent == withdraw {
		b.longest, b.asked = min(b.longest, longestCleanup), longestCleanup
	}
	return b
}

// after returns the pause after a failure of an object that was preceded by others. An api.RetryError says itself how long, as in the reference.
// Only a plugin that asks for no pause gets one: it would call the cloud without end.
func (b backoff) after(before int, err error, of string) time.Duration {
	var retry *cloudproviderapi.RetryError
	if errors.As(err, &retry) {
		pause := max(retry.RetryAfter(), shortestRetry)
		return min(pause, cmp.Or(b.asked, pause))
	}
	pause := b.growing().After(before, err)
	if b.jitter {
		pause = kit.Lengthened(pause, b.longest, of, before)
	}
	return pause
}

// growing is the pauses between what is repeated because others give cause for it again and again.
func (b backoff) growing() kit.Backoff { return kit.Backoff{First: b.first, Longest: b.longest} }
