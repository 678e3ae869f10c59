package scenario

import (
	"cmp"
	"slices"
	"time"
)

// State is where a step is.
type State string

// The states of a step. One that never began because an earlier one failed stays waiting.
const (
	Waiting State = "waiting"
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
)

// Step is something that has to happen within a time.
type Step struct {
	// Name is unique in the scenario.
	Name string
	// Title says what is checked, as a sentence without a full stop.
	Title string
	// Deadline is how long it may take.
	Deadline time.Duration

	// State, Detail and Err are how far it is, what was measured, and why it failed.
	State  State
	Detail string
	Err    string
	// Began is when it began, and Took how long it took.
	Began time.Time
	Took  time.Duration
}

// Section is some steps that belong together.
type Section struct {
	Name  string
	Title string
	Steps []Step
}

// NodeState is what of a node's state is shown.
type NodeState struct {
	// Tainted says that the node has the taint node.cloudprovider.kubernetes.io/uninitialized.
	Tainted bool
	// Ready is the node's condition, and Schedulable that no taint keeps pods away.
	Ready, Schedulable bool
	// ShutDown says that the node has the taint node.cloudprovider.kubernetes.io/shutdown, and Held that it has the condition
	// CloudInstanceGone.
	ShutDown, Held bool
	// ProviderID, Zone, Type, Internal and External are what the cloud said; empty while unknown.
	ProviderID, Zone, Type, Internal, External string
}

// Phase is how far a node is on its way.
type Phase string

// The phases of a node: those of its way to ready in their order, and what may become of it then.
const (
	Tainted     Phase = "tainted"
	Initialized Phase = "initialized"
	Ready       Phase = "ready"

	Unready  Phase = "unready"
	ShutDown Phase = "shut down"
	Held     Phase = "held"
	Gone     Phase = "deleted"
)

// Node is a node and how it came there.
type Node struct {
	Name string
	NodeState
	// RegisteredAt, InitializedAt and ReadyAt are when it was first seen in each phase; zero if it has not got there.
	RegisteredAt, InitializedAt, ReadyAt time.Time
	// TypeChanged and TypeBefore are when its machine type last changed, and what it was; zero if it never did.
	TypeChanged time.Time
	TypeBefore  string
	// GoneAt is when it was deleted; zero if it was not.
	GoneAt time.Time
}

// Phase returns how far the node is.
func (n Node) Phase() Phase {
	switch {
	case !n.GoneAt.IsZero():
		return Gone
	case n.NodeState.Tainted:
		return Tainted
	case n.NodeState.Held:
		return Held
	case n.NodeState.ShutDown:
		return ShutDown
	case n.NodeState.Ready && n.Schedulable:
		return Ready
	case !n.ReadyAt.IsZero():
		return Unready
	default:
		return Initialized
	}
}

// Role is what a replica of the manager does.
type Role string

// The roles of a replica.
const (
	Starting Role = "starting"
	Leader   Role = "leader"
	Standby  Role = "standby"
	Stopping Role = "stopping"
	Stopped  Role = "stopped"
)

// Replica is one process of the manager.
type Replica struct {
	Name string
	PID  int
	Role Role
	// Since is when it took this role.
	Since time.Time
}

// Model is the state of the demo after some events. It is a value: Apply returns another and leaves this one as it is.
type Model struct {
	Began, Now time.Time
	Sections   []Section
	// Nodes and Replicas are in the order of their names.
	Nodes    []Node
	Replicas []Replica
	// Calls are in the order of their kinds, and Recent the last calls, the oldest one first.
	Calls  []Calls
	Recent []Call
}

// Apply returns the model after an event. An event about a step that the scenario does not have changes nothing.
func (m Model) Apply(event Event) Model {
	switch e := event.(type) {
	case Opened:
		m = Model{Began: e.At, Now: e.At, Sections: opened(e.Sections)}
	case StepBegan:
		return m.at(e.At).step(e.Step, func(s Step) Step {
			s.State, s.Began = Running, e.At
			return s
		})
	case StepMoved:
		return m.at(e.At).step(e.Step, func(s Step) Step {
			s.Detail = e.Detail
			return s
		})
	case StepEnded:
		return m.at(e.At).step(e.Step, func(s Step) Step { return s.ended(e) })
	case NodeSeen:
		m = m.at(e.At)
		m.Nodes = put(m.Nodes, e.Name, func(n Node) string { return n.Name }, func(n Node) Node { return n.seen(e) })
	case NodeGone:
		m = m.at(e.At)
		m.Nodes = put(m.Nodes, e.Name, func(n Node) string { return n.Name }, func(n Node) Node { return n.gone(e) })
	case ReplicaSeen:
		m = m.at(e.At)
		m.Replicas = put(m.Replicas, e.Name, func(r Replica) string { return r.Name },
			func(Replica) Replica { return Replica{Name: e.Name, PID: e.PID, Role: e.Role, Since: e.At} })
	case CallSeen:
		return m.at(e.At).called(e.Call)
	case Tick:
		return m.at(e.At)
	}
	return m
}

// at moves the time on; events of several observers may arrive a little out of order.
func (m Model) at(now time.Time) Model {
	if now.After(m.Now) {
		m.Now = now
	}
	return m
}

func opened(sections []Section) []Section {
	sections = slices.Clone(sections)
	for i := range sections {
		sections[i].Steps = slices.Clone(sections[i].Steps)
		for j := range sections[i].Steps {
			sections[i].Steps[j].State = Waiting
		}
	}
	return sections
}

// step returns the model with one step changed.
func (m Model) step(name string, change func(Step) Step) Model {
	for i, section := range m.Sections {
		for j, step := range section.Steps {
			if step.Name != name {
				continue
			}
			m.Sections = slices.Clone(m.Sections)
			steps := slices.Clone(section.Steps)
			steps[j] = change(step)
			m.Sections[i].Steps = steps
			return m
		}
	}
	return m
}

func (s Step) ended(e StepEnded) Step {
	s.State, s.Detail, s.Err, s.Took = Done, e.Detail, e.Err, e.At.Sub(s.Began)
	if e.Err != "" {
		s.State = Failed
	}
	return s
}

// seen returns the node after an observation. The times of its phases are those of the first observation that shows them.
func (n Node) seen(e NodeSeen) Node {
	if !n.GoneAt.IsZero() {
		n = Node{} // another node of that name
	}
	before := n
	n.Name, n.NodeState = e.Name, e.NodeState
	if n.RegisteredAt.IsZero() {
		n.RegisteredAt = e.At
	}
	if n.Phase() != Tainted && n.InitializedAt.IsZero() {
		n.InitializedAt = e.At
	}
	if n.Phase() == Ready && n.ReadyAt.IsZero() {
		n.ReadyAt = e.At
	}
	if before.Type != "" && before.Type != n.Type {
		n.TypeChanged, n.TypeBefore = e.At, before.Type
	}
	return n
}

// gone returns the node as it was when it was deleted.
func (n Node) gone(e NodeGone) Node {
	n.Name, n.GoneAt = e.Name, e.At
	return n
}

// put returns a copy of values, which are in the order of their names, with the one of that name changed or added.
func put[T any](values []T, name string, nameOf func(T) string, change func(T) T) []T {
	values = slices.Clone(values)
	i, found := slices.BinarySearchFunc(values, name, func(value T, name string) int { return cmp.Compare(nameOf(value), name) })
	if !found {
		var zero T
		values = slices.Insert(values, i, zero)
	}
	values[i] = change(values[i])
	return values
}

// Current returns the step that is under way and the section that it belongs to; false if none is.
func (m Model) Current() (Section, Step, bool) {
	for _, section := range m.Sections {
		for _, step := range section.Steps {
			if step.State == Running {
				return section, step, true
			}
		}
	}
	return Section{}, Step{}, false
}

// Count returns how many steps there are, how many were done, and how many failed.
func (m Model) Count() (all, done, failed int) {
	for _, section := range m.Sections {
		for _, step := range section.Steps {
			all++
			switch step.State {
			case Done:
				done++
			case Failed:
				failed++
			}
		}
	}
	return all, done, failed
}

// Succeeded reports whether every step was done.
func (m Model) Succeeded() bool {
	all, done, _ := m.Count()
	return all > 0 && all == done
}
