package service

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// states is what the controller remembers of Services from one pass to the next. It is lost with the process, and nothing
// depends on its not being: what has to last is on the Service and in the cloud.
//
// Others read copies. They change a state by the transitions of this file only, each of which is named after what has happened.
type states struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]*state
}

// state is what is remembered under one name. What its pointers point to is never changed, so that a copy is safe to read.
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
	// predecessors are the Services that had the name before and whose load balancers are still to be deleted. OwnFirst says that the
	// deletion of one was the last to be tried, so that the Service comes before them where both are due.
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

// hadTurn says that a Service has had its turn, so that its predecessors are next.
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

// retargetFailed says that it is open what the targets are now. These are written by the next Ensure, and others before it.
func (s *states) retargetFailed(key types.NamespacedName, act action, targets *targetSet) {
	s.change(key, func(known *state) {
		changed := *known.made
		changed.ensured, changed.targets, changed.writtenTargets, changed.unlisted = false, nil, nil, nil
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

// succeeded ends a Service's row of failures, and forgets one that has no load balancer any more. Service is nil if it is gone.
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
			known.retargetFailures.retryAt, known.retargetFailures.targets = latest(known.retargetFailures.retryAt, now.Add(wait)), nil
		}
	})
	return delay, news
}

// retryNow ends the pause of a Service that has failed, and reports whether there was one.
func (s *states) retryNow(key types.NamespacedName) (failing bool) {
	if known, found := s.get(key); !found || known.failure == nil {
		return false
	}
	s.change(key, func(known *state) {
		if failing = known.failure != nil; failing {
			due := *known.failure
			due.retryAt = time.Now()
			known.failure = &due
		}
	})
	return failing
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

// compared says in which ways the cloud differs, and whether that is to be repaired. It reports whether it still is.
func (s *states) compared(key types.NamespacedName, looked *made, what string, differ []string, repair bool) bool {
	s.change(key, func(known *state) {
		switch {
		case known.made != looked:
			repair = false
		case len(differ) == 0:
			known.differs, known.repairs = "", 0
		case known.differs == what:
			known.repairs++
		default:
			known.differs, known.repairs = what, 1
		}
		if repair {
			known.drift, known.repairedAt = differ, time.Now()
		}
	})
	return repair
}
