// Package scenario holds what a demo shows, as values: events, and the model that they add up to. Whatever happens becomes an
// event; Model.Apply is the only place that decides what it means; renderers show models. Nothing here does I/O or reads a
// clock.
package scenario

import "time"

// Event is something that happened. Events are applied in the order in which they are reported.
type Event interface{ event() }

// Opened is the first event: all sections and steps.
type Opened struct {
	At       time.Time
	Sections []Section
}

// StepBegan says that a step is under way.
type StepBegan struct {
	At   time.Time
	Step string
}

// StepMoved says how far a step is.
type StepMoved struct {
	At     time.Time
	Step   string
	Detail string
}

// StepEnded says how a step ended: Err is empty when what it checks did happen.
type StepEnded struct {
	At     time.Time
	Step   string
	Detail string
	Err    string
}

// NodeSeen is a node as the API server shows it now.
type NodeSeen struct {
	At   time.Time
	Name string
	NodeState
}

// NodeGone says that the API server has a node no more.
type NodeGone struct {
	At   time.Time
	Name string
}

// ReplicaSeen is what a replica of the manager does now.
type ReplicaSeen struct {
	At   time.Time
	Name string
	PID  int
	Role Role
}

// CallSeen is a call of an API of the cloud that has ended.
type CallSeen struct {
	At time.Time
	Call
}

// Tick says that time has passed.
type Tick struct {
	At time.Time
}

func (Opened) event()      {}
func (StepBegan) event()   {}
func (StepMoved) event()   {}
func (StepEnded) event()   {}
func (NodeSeen) event()    {}
func (NodeGone) event()    {}
func (ReplicaSeen) event() {}
func (CallSeen) event()    {}
func (Tick) event()        {}
