package health

import (
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/announce/model"
)

// answer is what a port said.
type answer int

const (
	// silent ports did not answer in time, or could not be connected to.
	silent answer = iota
	// refusing ports answered that traffic is not welcome.
	refusing
	// leaving is the answer of a kube-proxy that works on a node that is being removed.
	leaving
	// welcoming ports answered that traffic is welcome.
	welcoming
)

// String returns the answer as in metrics.
func (a answer) String() string { return [...]string{"silent", "refusing", "leaving", "welcoming"}[a] }

// outcome is one probe.
type outcome struct {
	answer answer
	// began is when the probe began.
	began time.Time
	// witness is when, of the probes of other ports that had been answered by then, the latest began.
	witness time.Time
}

// limits are how many outcomes in a row make a health.
type limits struct {
	failures, successes int
	// margin is longer than an answer normally takes.
	margin time.Duration
}

// state is what is known of one port. It is changed by observe only, and knows no clock.
type state struct {
	health model.Health
	// good and bad count the latest outcomes of one sort in a row.
	good, bad int
	// silentSince is when the first probe of the latest row without an answer began; zero after an answer.
	silentSince time.Time
	// probes counts all.
	probes int
}

// observe takes an outcome and reports whether the health has changed.
//
// An answer is believed. Silence may be the prober's own fault: its network may be down. It is believed only if another port has
// answered within the row, that is, a probe which began after the first one of the row and before the latest. What is silent
// because nothing gets through never has such a witness, and its row ends when the network is back. The margin is for the
// probes that are under way when the network fails.
func (s *state) observe(seen outcome, limits limits) (changed bool) {
	before := s.health
	s.probes++
	if seen.answer != silent {
		s.silentSince = time.Time{}
	} else if s.silentSince.IsZero() {
		s.silentSince = seen.began
	}
	if seen.answer == welcoming {
		s.good, s.bad = s.good+1, 0
		if s.good >= limits.successes {
			s.health = model.Healthy
		}
		return s.health != before
	}
	s.good, s.bad = 0, s.bad+1
	switch {
	case s.bad < limits.failures:
	case seen.answer == leaving:
		s.health = model.HealthLeaving
	case seen.answer == refusing, seen.witness.After(s.silentSince.Add(limits.margin)):
		s.health = model.Unhealthy
	}
	return s.health != before
}

// decided reports whether as much is known of the port as probing can find out in its first round.
func (s *state) decided(limits limits) bool {
	return s.health != model.HealthUnknown || s.bad > limits.failures || s.probes >= limits.failures+limits.successes
}
