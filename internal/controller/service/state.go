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
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

const (
	// DefaultFirstRetry is the pause after the first failure for a Service, as in the reference; it doubles with each further one.
	DefaultFirstRetry = 5 * time.Second

	// absenceTries is how often in a row a deletion has to fail until it is believed that there is nothing to delete.
	absenceTries = 3
)

// states is what the controller remembers of Services from one pass to the next: a row a UID. It is lost with the process, and nothing
// depends on its not being: what has to last is on the Service and in the cloud.
//
// A row has one writer. The pass over a Service takes it, changes its own copy by the transitions of this file, and stores that. What others find out
// is written between passes, see observe and retryNow. They read copies. Of Services that had a name one after the other, one has a pass at a time.
//
// See ADR 93.
type states struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*entry
	// byName are the same rows, by the names of their Services.
	byName map[types.NamespacedName][]*entry
}

// entry is a row, and who works with it.
type entry struct {
	state
	key, name types.NamespacedName
	// taken says that a pass has it, and again that the provider has asked meanwhile for the Service to be tried, see retryNow.
	taken, again bool
}

// state is the row of one Service. The targets of its pointers never change, so a copy is safe to read.
type state struct {
	// made is what was made in the cloud, nil if nothing was.
	made *made
	// madeAt is when the plugin was last called for it.
	madeAt time.Time
	// removed says that the load balancer has been deleted, while the Service is still there.
	removed bool
	// awaits says that the next pass has to wait for one over another Service of the name, which queues it when it ends.
	awaits bool
	// ownWrite is the Service as our own last write returned it.
	ownWrite *corev1.Service
	// drift is what the last comparison with the cloud found and has not been repaired yet.
	drift []string
	// differs is what the last comparison found, repairs how often in a row it was the same, and repairedAt when a repair was last
	// queued for it.
	differs    string
	repairs    int
	repairedAt time.Time
	// ensure and remove are the passes over the Service that failed; retarget the changes of its targets that failed while it could not be ensured.
	ensure, retarget, remove attempt
	// targetsNext says that the Service was tried last, so its targets go first.
	targetsNext bool
	// conditionAt is when a failure was last written to the condition.
	conditionAt time.Time
}

func newStates() *states {
	return &states{byKey: map[types.NamespacedName]*entry{}, byName: map[types.NamespacedName][]*entry{}}
}

// take returns a copy of the row of a Service for a pass, which calls end, and the row of one that had its name before and still has its load
// balancer, nil if none has. It takes nothing, and returns false, while a pass over another one of the name is under way.
func (s *states) take(key types.NamespacedName) (row state, before *state, free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil {
		e = &entry{key: key, name: nameOf(key)}
		s.byKey[key], s.byName[e.name] = e, append(s.byName[e.name], e)
	}
	for _, other := range s.byName[e.name] {
		switch {
		case other == e:
		case other.taken:
			e.awaits = true
			return state{}, nil, false
		case other.made != nil:
			copied := other.state
			before = &copied
		}
	}
	e.taken, e.awaits = true, false
	return e.state, before, true
}

// store shows others how far a pass has come.
func (s *states) store(key types.NamespacedName, row state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKey[key].state = row
}

// end stores the row of a pass that has ended, unless there is nothing to remember, and returns whom a pass is due over because of that. Service
// is nil if it is gone.
func (s *states) end(key types.NamespacedName, row state, service *corev1.Service) (due []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e.again {
		row.tryNow(time.Now())
	}
	*e = entry{state: row, key: key, name: e.name}
	for _, other := range s.byName[e.name] {
		if other != e && other.awaits {
			due = append(due, other.key)
		}
	}
	if row.made != nil || row.awaits || row.failing() || service != nil && (row.ownWrite != nil || row.removed && servicehelpers.HasLBFinalizer(service)) {
		return due
	}
	delete(s.byKey, key)
	s.byName[e.name] = slices.DeleteFunc(s.byName[e.name], func(other *entry) bool { return other == e })
	if len(s.byName[e.name]) == 0 {
		delete(s.byName, e.name)
	}
	return due
}

// get returns a copy of the row of a Service, and whether there is one.
func (s *states) get(key types.NamespacedName) (row entry, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, found := s.byKey[key]; found {
		return *e, true
	}
	return entry{}, false
}

// entries returns a copy of each row, and who works with it.
func (s *states) entries() (copied []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byKey {
		copied = append(copied, *e)
	}
	return copied
}

// all returns a copy of everything that is remembered.
func (s *states) all() map[types.NamespacedName]state {
	copied := map[types.NamespacedName]state{}
	for _, e := range s.entries() {
		copied[e.key] = e.state
	}
	return copied
}

// madeFor returns the UIDs of the Services that something was made for.
func (s *states) madeFor() (uids []types.UID) {
	for _, row := range s.all() {
		if row.made != nil {
			uids = append(uids, row.made.service.UID)
		}
	}
	return uids
}

// counts returns how many load balancers are as they should be, and how many are not yet.
func (s *states) counts() (provided, unfinished int) {
	for _, row := range s.all() {
		if row.made != nil && row.made.ensured && !row.failing() {
			provided++
		} else if row.made != nil || row.failing() {
			unfinished++
		}
	}
	return provided, unfinished
}

// observe notes what was found out about a load balancer between passes. It does nothing, and returns false, if a pass is under way or something else
// was made since: what was found out is about that no longer.
func (s *states) observe(key types.NamespacedName, looked *made, change func(*state)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil || e.taken || e.made != looked {
		return false
	}
	change(&e.state)
	return true
}

// retryNow ends the pause of a Service that has failed, and has another one ensured again. It returns those of the name that are due. What a pass
// under way has begun may be from before.
func (s *states) retryNow(name types.NamespacedName) (due []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byName[name] {
		if e.again = e.taken; e.taken || e.tryNow(time.Now()) {
			due = append(due, e.key)
		}
	}
	return due
}

// tryNow has a Service tried again, and reports whether there is something to try.
func (s *state) tryNow(now time.Time) bool {
	s.ensure.Until, s.remove.Until = now, now
	ensured := s.made != nil && s.made.ensured
	if ensured { // what has failed may be a write to the API server
		s.drift = []string{"the provider reports that it has changed"}
	}
	return ensured || s.failing()
}

// ensuring says, before the plugin is called, that there may be something in the cloud from now on.
func (s *state) ensuring(service *corev1.Service, want desired) {
	attempt := &made{service: service, failing: true}
	if before := s.made; before != nil {
		attempt.lastEnsured, attempt.status = before.lastEnsured, before.status
		if maps.Equal(before.targets, want.latest.members) { // else an Ensure that fails leaves it open which of them it has
			attempt.targets = before.targets
		}
	}
	s.made, s.removed, s.targetsNext = attempt, false, true
}

// removing says, before the plugin is called, that what is in the cloud may be less than what was made from now on.
func (s *state) removing() {
	if s.made != nil {
		left := *s.made
		left.ensured, s.made = false, &left
	}
}

// called says what a call of the plugin brought about.
func (s *state) called(act action, want desired, done result, err error, now time.Time) {
	switch {
	case act.verb == verbRetarget:
		made := s.made.retargeted(act, want.latest, err, now)
		if s.made = &made; err == nil {
			s.madeAt = now
		}
	case err != nil:
	case act.verb == verbEnsure:
		s.made = &made{service: act.service, ensured: true, lastEnsured: act.service, targets: want.latest.members,
			writtenTargets: want.latest, wholeAt: now, status: done.status, unpublished: done.status != nil && !done.echo}
		s.madeAt, s.drift = now, nil
	default:
		s.made, s.drift, s.removed = nil, nil, true
	}
}

// retargeted returns what was made after the plugin was called to change its targets. If that failed, it is open what they are now. These are written
// by the next Ensure, and others before it. While the cloud does not find the load balancer, an Ensure might make a second one, so the same is tried
// again; the next look of the drift check counts that answer, too.
func (m made) retargeted(act action, targets *targetSet, err error, now time.Time) made {
	switch {
	case errors.Is(err, errNotFound):
		m.writtenTargets, m.denial = nil, m.denial.after(now)
		m.denial.targets = targets.members
	case err != nil:
		m.ensured = m.ensured && m.denial.answers > 0
		m.targets, m.writtenTargets, m.unlisted = nil, nil, nil
		if !act.onlyTargets {
			m.denial.targets = targets.members
		}
	default:
		if m.ensured {
			m.service = act.service
		}
		m.targets, m.writtenTargets, m.unlisted, m.denial = targets.members, targets, nil, denial{}
		if act.change == nil {
			m.wholeAt = now
		}
	}
	return m
}

// wrote says that a Service was written, and what it is now.
func (s *state) wrote(act action, service *corev1.Service, now time.Time) {
	s.ownWrite = service
	switch {
	case act.verb != verbPublish:
	case act.failed:
		s.conditionAt = now
	case s.made != nil:
		published := *s.made
		published.unpublished, s.made = false, &published
	}
}

// failed says that a pass has failed, which continues the last ones, and returns them all.
func (s *state) failed(want desired, last attempt, err error, pauses backoff, now time.Time) attempt {
	last.inputs = want.inputs
	if want.inputs != nil { // one that is gone is not looked at in between
		pauses = pauses.of(want.intent)
	}
	last = last.next(err, pauses, now)
	s.keep(want.intent, last)
	s.targetsNext = want.intent == provide
	// The targets wait, too, for as long as the cloud asks.
	if wait, asked := classify.RetryAfter(err); asked {
		s.retarget.Until, s.retarget.targets = kit.Later(s.retarget.Until, now.Add(wait)), nil
	}
	return last
}

// keep keeps how passes for an intent fare; those for another one are over.
func (s *state) keep(intent intent, last attempt) {
	if s.ensure, s.remove = last, (attempt{}); intent == withdraw {
		s.ensure, s.remove = attempt{}, last
	}
}

// retargetFailed says that the targets could not be changed while their Service waits.
func (s *state) retargetFailed(targets *targetSet, err error, pauses backoff, now time.Time) {
	s.retarget.inputs = s.made.service
	s.retarget = s.retarget.next(err, pauses, now)
	s.retarget.targets, s.targetsNext = targets.members, false
}

// followed says that the targets were changed while their Service waits, which is next.
func (s *state) followed() {
	s.retarget, s.targetsNext = attempt{}, false
}

// failing reports whether the last pass over the Service failed.
func (s *state) failing() bool { return s.ensure.err != nil || s.remove.err != nil }

// continued returns the failed passes that a pass for an intent and inputs continues: it does the same. Once it is something else, it is worth trying
// at once.
func (s *state) continued(want desired) attempt {
	last := s.ensure
	if want.intent == withdraw {
		last = s.remove
	}
	if last.err == nil || len(changes(last.inputs, want.inputs)) > 0 {
		return attempt{}
	}
	return last
}

// shown says what is known of a load balancer after the cloud was asked. A Service whose load balancer it finds again is due.
func (s *state) shown(after *made, now time.Time) {
	if s.made.denial.answers > 0 && after.denial.answers == 0 && s.ensure.reason == ReasonNotFound {
		s.ensure.Until = now
	}
	s.made = after
}

// compared says in which ways the cloud differs, and whether that is to be repaired. It reports whether the Service has to say something else: that
// the repairs are over, or that nothing differs after them.
func (s *state) compared(differ []string, repair bool, now time.Time) (news bool) {
	switch what := fmt.Sprint(differ); {
	case len(differ) == 0:
		s.differs, s.repairs = "", 0
	case s.differs == what:
		s.repairs++
	default:
		s.differs, s.repairs = what, 1
	}
	if repair {
		s.drift, s.repairedAt = differ, now
		return false
	}
	changed := *s.made
	if changed.stillDiffers = ""; len(differ) > 0 {
		changed.stillDiffers = kit.EventMessage(fmt.Sprintf("The load balancer still differs after %d repairs: %s", maxRepairs, strings.Join(differ, ", ")))
	}
	news = s.made.stillDiffers != changed.stillDiffers
	s.made = &changed
	return news
}

// attempt is a row of tries of one kind that failed. The zero value is none. Count is without those for which the plugin itself said when to try
// again.
type attempt struct {
	kit.Row
	// inputs is the Service that was tried; nil: it is gone.
	inputs *corev1.Service
	// since is when the first failed, and all how many did.
	since time.Time
	all   int
	// conflicts is how many writes in a row came too late.
	conflicts int
	// absent is how many deletions in a row failed though there was no load balancer to be seen.
	absent int
	// reason and err are the last ones; err is nil if the row is none. EventAt is when an event last reported the reason, and news says that one is due.
	reason  string
	err     error
	eventAt time.Time
	news    bool
	// targets, as made.targets, are the ones that wait for their next try; others are due at once, as in the reference. Nil: all wait.
	targets map[string]string
}

// next returns the row with one more failure. An event is due the first time, when the reason changes, and every kit.EventInterval.
func (a attempt) next(err error, pauses backoff, now time.Time) attempt {
	reason := reasonOf(err)
	a.conflicts = 0
	if (reason == ReasonWriteFailed) != (a.reason == ReasonWriteFailed) {
		a.Count = 0 // the cloud and the API server each have a row: what the other did not bear is over
	}
	if a.all++; a.all == 1 {
		a.since = now
	}
	if a.absent++; !errors.Is(err, errAbsent) {
		a.absent = 0
	}
	of := types.UID("")
	if a.inputs != nil {
		of = a.inputs.UID
	}
	a.Until = now.Add(pauses.after(a.Count, err, string(of)))
	var retry *cloudproviderapi.RetryError
	if !errors.As(err, &retry) { // a fixed delay does not count toward one that grows
		a.Count++
	}
	if a.news = a.reason != reason || now.Sub(a.eventAt) >= kit.EventInterval; a.news {
		a.reason, a.eventAt = reason, now
	}
	a.err = err
	return a
}

// holds reports whether the targets that are wanted wait for their next try.
func (a *attempt) holds(want desired) bool {
	return a.targets == nil || want.settled.servedBy(a.targets) || want.latest.servedBy(a.targets)
}

// lasts reports whether a Service has failed for long enough to say so in its condition, and not only by an event: with the second pass
// in a row, or, where a failure was shown and mended a moment ago, when it has gone on for as long as the longest pause: a call that fails every
// other time would cost two writes each time, and the reference makes none.
func (a *attempt) lasts(shownAt, now time.Time) bool {
	return a.all >= 2 && (now.Sub(shownAt) >= kit.EventInterval || now.Sub(a.since) >= kit.LongestRetry)
}

// intent returns what shall become of the load balancer of a Service, which may be gone.
func (s *state) intent(service *corev1.Service, classes Classes) intent {
	return intentFor(service, classes, s.made != nil || s.removed)
}

// newest returns the newer of what the cache holds and what our own last write returned: a pass on a copy that is older than
// our own write would do again what is done.
func (s *state) newest(cached *corev1.Service) *corev1.Service {
	if s.ownWrite == nil || cached == nil || s.ownWrite.UID != cached.UID {
		return cached
	}
	if kit.Older(cached.ResourceVersion, s.ownWrite.ResourceVersion) {
		return s.ownWrite
	}
	return cached
}

// soonest returns the shorter of two waits; zero is none.
func soonest(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// backoff is how long to wait after failures.
type backoff struct {
	first, longest time.Duration
	// asked bounds the pause that an api.RetryError asks for; zero: nothing does.
	asked time.Duration
	// jitter says that pauses have some.
	jitter bool
}

// of returns the pauses between passes for an intent. As in the reference, a Service that is to be cleaned up is looked at every 30 seconds at least.
func (b backoff) of(intent intent) backoff {
	if intent == withdraw {
		b.longest, b.asked = min(b.longest, kit.WriteTimeout), kit.WriteTimeout
	}
	return b
}

// after returns the pause after a failure of an object that was preceded by others. An api.RetryError says itself how long, as in the reference.
// Only a plugin that asks for no pause gets one: it would call the cloud without end.
func (b backoff) after(before int, err error, of string) time.Duration {
	var retry *cloudproviderapi.RetryError
	if errors.As(err, &retry) {
		pause := max(retry.RetryAfter(), kit.Moment)
		return min(pause, cmp.Or(b.asked, pause))
	}
	pause := kit.Backoff{First: b.first, Longest: b.longest}.After(before, err)
	if b.jitter {
		pause = kit.Lengthened(pause, b.longest, of, before)
	}
	return pause
}
