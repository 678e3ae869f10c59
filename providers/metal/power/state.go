package power

import (
	"time"

	"github.com/mooring-ccm/mooring/provider"
)

// State is the power state of a machine.
type State int

const (
	// Unknown is the state of a machine whose controller says neither, or cannot be asked.
	Unknown State = iota
	// On is the state of a machine that has power, whether or not it has booted.
	On
	// Off is the state of a machine that has no power.
	Off
)

// String returns the state in lower case, as in metrics and in the output of commands.
func (s State) String() string {
	switch s {
	case On:
		return "on"
	case Off:
		return "off"
	default:
		return "unknown"
	}
}

// ConfirmAfter is how far apart two readings have to be that say off. Management controllers say off for a moment when they
// restart, and when a machine is reset.
const ConfirmAfter = 2 * time.Second

// Observation is what is known of the power of one machine.
type Observation struct {
	// State is On, Off if that is confirmed, or else Unknown.
	State State
	// Since is when the controller first said so without having said anything else since; zero for Unknown.
	Since time.Time
	// Seen is when the controller last said anything; zero if it never has.
	Seen time.Time
	// Err says why the last attempt to ask failed; nil if it did not.
	Err error
}

// InstanceState returns the state as lists of instances show it.
func (o Observation) InstanceState() provider.InstanceState {
	switch o.State {
	case On:
		return provider.InstanceRunning
	case Off:
		return provider.InstanceStopped
	default:
		return provider.InstanceStateUnknown
	}
}

// history is what a controller said lately. It is a value, and what follows it a new one.
type history struct {
	// state is what the last row of equal readings said, first and last when it began and ended, and readings how many they are.
	state       State
	first, last time.Time
	readings    int
	// failures counts the attempts since the last reading, and err is what became of the last.
	failures int
	err      error
}

// read returns the history after a reading. A row is broken by another state, and by a silence longer than a state counts.
func (h history) read(state State, at time.Time, counts time.Duration) history {
	if state != h.state || h.readings == 0 || at.Sub(h.last) > counts {
		return history{state: state, first: at, last: at, readings: 1}
	}
	return history{state: state, first: h.first, last: at, readings: h.readings + 1}
}

// failed returns the history after an attempt that failed. It says nothing about the machine.
func (h history) failed(err error) history {
	h.failures++
	h.err = err
	return h
}

// observe returns what is known, if what a controller said counts for so long.
func (h history) observe(now time.Time, counts time.Duration) Observation {
	observation := Observation{Seen: h.last, Err: h.err}
	if h.readings == 0 || now.Sub(h.last) > counts || h.state == Off && !h.confirmed() {
		return observation
	}
	observation.State, observation.Since = h.state, h.first
	if h.state == Unknown {
		observation.Since = time.Time{}
	}
	return observation
}

// confirmed reports whether the row has lasted.
func (h history) confirmed() bool { return h.readings >= 2 && h.last.Sub(h.first) >= ConfirmAfter }
