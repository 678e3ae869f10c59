package health

import (
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

// answer is what a port said.
type answer int

const (
	// silent ports did not answer in time, or could not be reached.
	silent answer = iota
	// closed ports refused the connection, or ended it without an answer: the machine lives, its process does not answer.
	closed
	// refusing ports answered that traffic is not welcome.
	refusing
	// leaving is the answer of a kube-proxy that works on a node that is being removed.
	leaving
	// welcoming ports answered that traffic is welcome.
	welcoming
)

// answers are all of them.
var answers = [...]answer{silent, closed, refusing, leaving, welcoming}

// String returns the answer as in metrics.
func (a answer) String() string {
	return [...]string{"silent", "closed", "refusing", "leaving", "welcoming"}[a]
}

// outcome is one probe.
type outcome struct {
	answer answer
	// began is when the probe began.
	began time.Time
	// witness is when, of the probes of other ports that had been answered by then, the latest began.
	witness time.Time
	// reached says that the port, or another that the same process serves on another node, has ever answered or refused.
	reached bool
}

// limits are how many outcomes in a row make a health, and how long some have to last.
type limits struct {
	failures, successes int
	// margin is longer than an answer normally takes.
	margin time.Duration
	// refusedWait is for how long a port that refuses connections keeps the health that it had.
	refusedWait time.Duration
}

const (
	// firstHold is how long a node that has failed twice has to answer before it is healthy. It doubles with each failure.
	firstHold = 5 * time.Second
	// lastHold bounds that.
	lastHold = time.Minute
	// forgetAfter is how long a node has to go without a failure until those before do not count.
	forgetAfter = 10 * time.Minute
)

// state is what is known of one port. It is changed by observe only, and knows no clock.
type state struct {
	health model.Health
	// node says that the port is kube-proxy's own, so its health is the node's. A health-check node port, in contrast, changes with every
	// pod that comes or goes, and is not damped.
	node bool
	// good and bad count the latest outcomes in a row: good ones, and ones that were neither good nor a closed port.
	good, bad int
	// goodSince, silentSince and closedSince are when the first probe of the latest row began that was good, was not answered, or
	// found the port closed. Silence between does not end a row of closed ports. Zero: there is no row.
	goodSince, silentSince, closedSince time.Time
	// afterSilence says that the row of good ones followed silence, in which nothing had refused or closed a connection.
	afterSilence bool
	// failures counts how often a node was well and failed, the last time at failedAt.
	failures int
	failedAt time.Time
	// probes counts all.
	probes int
}

// observe takes an outcome and reports whether the health has changed.
//
// An answer is believed. Silence may be the prober's own fault: its network may be down. It is believed only if another port has
// answered within the row, that is, a probe which began after the first one of the row and before the latest. What is silent
// because nothing gets through never has such a witness, and its row ends when the network is back. The margin is for the
// probes that are under way when the network fails.
//
// A refused connection comes from the kernel of a machine that lives. The rules that kube-proxy has written go on forwarding while
// it is restarted, so the health stays for a while.
func (s *state) observe(seen outcome, limits limits) (changed bool) {
	before := s.health
	s.probes++
	s.rows(seen)
	switch {
	case seen.answer == welcoming:
		s.succeed(seen, limits)
	case seen.answer == closed:
		s.refuse(seen, limits)
	case s.bad < limits.failures:
	case seen.answer == leaving:
		s.health = model.HealthLeaving
	case seen.answer == refusing:
		s.health = model.Unhealthy
	case !seen.witness.After(s.silentSince.Add(limits.margin)):
	case seen.reached:
		s.health = model.Unhealthy
	default:
		s.health = model.HealthUnreached
	}
	s.countFailure(before, seen.began)
	return s.health != before
}

// rows counts on the row that an outcome belongs to, and ends the others.
func (s *state) rows(seen outcome) {
	begin := func(row *time.Time, of bool) {
		switch {
		case !of:
			*row = time.Time{}
		case row.IsZero():
			*row = seen.began
		}
	}
	if seen.answer == welcoming && s.good == 0 {
		s.afterSilence = !s.silentSince.IsZero() && s.closedSince.IsZero()
	}
	begin(&s.goodSince, seen.answer == welcoming)
	begin(&s.silentSince, seen.answer == silent)
	if seen.answer != silent {
		begin(&s.closedSince, seen.answer == closed)
	}
	switch seen.answer {
	case welcoming:
		s.good, s.bad = s.good+1, 0
	case closed:
		s.good, s.bad = 0, 0
	default:
		s.good, s.bad = 0, s.bad+1
	}
}

// succeed takes a good outcome. A node that has failed again and again has to be good for longer.
func (s *state) succeed(seen outcome, limits limits) {
	switch {
	case s.health == model.Healthy || s.good < limits.successes:
	case seen.began.Sub(s.goodSince) < s.hold(seen.began):
		s.health = model.HealthDamped
	default:
		s.health = model.Healthy
	}
}

// refuse takes a port that is closed. A kube-proxy of which nothing is known is not waited for: it has never run, or the machine has
// just been started and has no rules yet. A health-check node port of which nothing is known is about to be opened.
func (s *state) refuse(seen outcome, limits limits) {
	wait := limits.refusedWait
	if s.node && s.health != model.Healthy && s.health != model.HealthLeaving {
		wait = 0
	}
	if seen.began.Sub(s.closedSince) >= wait {
		s.health = model.HealthRefused
	}
}

// countFailure counts that a node answered as it should and no longer does.
func (s *state) countFailure(before model.Health, now time.Time) {
	answered := before == model.Healthy || before == model.HealthDamped
	if !s.node || !answered || s.health != model.Unhealthy && s.health != model.HealthRefused {
		return
	}
	if now.Sub(s.failedAt) >= forgetAfter {
		s.failures = 0
	}
	s.failures, s.failedAt = s.failures+1, now
}

// returns reports whether a port that was out for its silence answers again, and has not done so often enough. A machine that boots refuses
// connections before its kube-proxy runs, so this one has its rules, and is asked again at once.
func (s *state) returns() bool {
	return s.afterSilence && s.good > 0 && (s.health == model.Unhealthy || s.health == model.HealthUnreached)
}

// hold returns for how long a node has to be good before it is healthy again, besides the number of successes.
func (s *state) hold(now time.Time) time.Duration {
	if s.failures < 2 || now.Sub(s.failedAt) >= forgetAfter {
		return 0
	}
	const doublings = 4 // beyond which the bound is reached
	return min(firstHold<<min(s.failures-2, doublings), lastHold)
}

// decided reports whether as much is known of the port as probing can find out in its first round.
func (s *state) decided(limits limits) bool {
	return s.health != model.HealthUnknown || s.bad > limits.failures || s.probes >= limits.failures+limits.successes
}
