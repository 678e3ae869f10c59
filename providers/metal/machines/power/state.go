package power

import (
	"errors"
	"time"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
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
	// System is the system that it is the state of, if the controller says it. Verified says that this is the machine, by its systemUUID in
	// the inventory or, where the inventory says none, by the system UUID of its node.
	System   SystemUUID
	Verified bool
	// Trusted says that volumes may leave a machine on the word of this controller: it is verified, or the config allows that it
	// is not.
	Trusted bool
	// Seen is when the controller last said anything; zero if it never has.
	Seen time.Time
	// Err says why the last attempt to ask failed; nil if it did not.
	Err error
}

// VerifiedPower returns what is known of the machine's power where a mistake would turn off another machine: whatever a controller says
// that is not verified is nodestate.Unverified.
func (o Observation) VerifiedPower() nodestate.Power {
	if o.State != Unknown && !o.Verified {
		return nodestate.Unverified
	}
	return o.powerIf(true)
}

// TrustedPower returns what is known of the machine's power where volumes leave a machine that is off. Only Off needs trust; an
// untrusted Off is nodestate.Unverified.
func (o Observation) TrustedPower() nodestate.Power { return o.powerIf(o.Trusted) }

// powerIf returns the power, where off counts only if it is believed.
func (o Observation) powerIf(believed bool) nodestate.Power {
	switch {
	case o.State == On:
		return nodestate.On
	case o.State == Off && believed:
		return nodestate.Off
	case o.State == Off:
		return nodestate.Unverified
	default:
		return nodestate.Unknown
	}
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
	// reading is what the last row of equal readings said, first and last when it began and ended, and readings how many they are.
	reading     Reading
	first, last time.Time
	readings    int
	// failures counts the attempts since the last reading, and err is what became of the last.
	failures int
	err      error
}

// read returns the history after a reading. A row is broken by another state or system, and by a silence longer than a state counts.
func (h history) read(reading Reading, at time.Time, counts time.Duration) history {
	if reading != h.reading || h.readings == 0 || at.Sub(h.last) > counts {
		return history{reading: reading, first: at, last: at, readings: 1}
	}
	return history{reading: reading, first: h.first, last: at, readings: h.readings + 1}
}

// failed returns the history after an attempt that failed. It says nothing about the machine, unless it says that the controller belongs to
// another one. Then earlier readings may have been of that one, too.
func (h history) failed(err error) history {
	var wrong *WrongSystemError
	if errors.As(err, &wrong) {
		h = history{failures: h.failures}
	}
	h.failures++
	h.err = err
	return h
}

// observe returns what is known, if what a controller said counts for so long.
func (h history) observe(now time.Time, counts time.Duration) Observation {
	observation := Observation{Seen: h.last, Err: h.err}
	if h.readings == 0 || now.Sub(h.last) > counts || h.reading.State == Off && !h.confirmed() {
		return observation
	}
	observation.State, observation.Since = h.reading.State, h.first
	observation.System, observation.Verified = h.reading.System, h.reading.Verified
	if h.reading.State == Unknown {
		observation.Since = time.Time{}
	}
	return observation
}

// confirmed reports whether the row has lasted.
func (h history) confirmed() bool { return h.readings >= 2 && h.last.Sub(h.first) >= ConfirmAfter }
