package scenario

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var begin = time.Unix(1_000_000_000, 0)

func at(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

func twoSteps() Opened {
	return Opened{At: begin, Sections: []Section{{Name: "c", Title: "C", Steps: []Step{{Name: "c/one"}, {Name: "c/two"}}}}}
}

// modelOf returns the model after some events.
func modelOf(events ...Event) Model {
	var m Model
	for _, event := range events {
		m = m.Apply(event)
	}
	return m
}

func TestSteps(t *testing.T) {
	opened := twoSteps()
	for name, c := range map[string]struct {
		events             []Event
		want               []Step
		done, failed       int
		succeeded, running bool
	}{
		"opened": {want: []Step{{Name: "c/one", State: Waiting}, {Name: "c/two", State: Waiting}}},
		"under way": {
			events: []Event{StepBegan{at(1), "c/one"}, StepMoved{at(2), "c/one", "half"}},
			want:   []Step{{Name: "c/one", State: Running, Detail: "half", Began: at(1)}, {Name: "c/two", State: Waiting}}, running: true,
		},
		"all done": {
			events: []Event{
				StepBegan{at(1), "c/one"}, StepEnded{At: at(3), Step: "c/one", Detail: "3"}, StepBegan{at(3), "c/two"}, StepEnded{At: at(4), Step: "c/two"},
			},
			want: []Step{
				{Name: "c/one", State: Done, Detail: "3", Began: at(1), Took: 2 * time.Second},
				{Name: "c/two", State: Done, Began: at(3), Took: time.Second},
			},
			done: 2, succeeded: true,
		},
		"failed": {
			events: []Event{StepBegan{at(1), "c/one"}, StepEnded{At: at(2), Step: "c/one", Err: "no"}},
			want:   []Step{{Name: "c/one", State: Failed, Err: "no", Began: at(1), Took: time.Second}, {Name: "c/two", State: Waiting}}, failed: 1,
		},
		"unknown step": {
			events: []Event{StepBegan{at(1), "x"}},
			want:   []Step{{Name: "c/one", State: Waiting}, {Name: "c/two", State: Waiting}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := modelOf(append([]Event{opened}, c.events...)...)
			if diff := cmp.Diff(c.want, m.Sections[0].Steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			all, done, failed := m.Count()
			_, _, running := m.Current()
			if all != 2 || done != c.done || failed != c.failed || m.Succeeded() != c.succeeded || running != c.running {
				t.Errorf("%d steps, %d done, %d failed, succeeded %v, running %v", all, done, failed, m.Succeeded(), running)
			}
		})
	}
	if modelOf().Succeeded() {
		t.Error("a scenario without steps succeeded")
	}
}

func TestNodesWay(t *testing.T) {
	m := modelOf(
		NodeSeen{At: at(1), Name: "b", NodeState: NodeState{Tainted: true}},
		NodeSeen{At: at(1), Name: "a", NodeState: NodeState{Tainted: true, Ready: true}},
		NodeSeen{At: at(3), Name: "b", NodeState: NodeState{Ready: true, Type: "small"}},
		NodeSeen{At: at(4), Name: "b", NodeState: NodeState{Ready: true, Schedulable: true, Type: "small"}},
		NodeSeen{At: at(9), Name: "b", NodeState: NodeState{Ready: true, Schedulable: true, Type: "large"}},
	)
	want := []Node{
		{Name: "a", NodeState: NodeState{Tainted: true, Ready: true}, RegisteredAt: at(1)},
		{
			Name: "b", NodeState: NodeState{Ready: true, Schedulable: true, Type: "large"},
			RegisteredAt: at(1), InitializedAt: at(3), ReadyAt: at(4), TypeChanged: at(9), TypeBefore: "small",
		},
	}
	if diff := cmp.Diff(want, m.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if a, b := m.Nodes[0].Phase(), m.Nodes[1].Phase(); a != Tainted || b != Ready {
		t.Errorf("phases %s and %s", a, b)
	}
	if m.Now != at(9) {
		t.Errorf("now is %s", m.Now)
	}
}

func TestWhatBecomesOfANode(t *testing.T) {
	ready := NodeState{Ready: true, Schedulable: true}
	way := []struct {
		event Event
		want  Phase
	}{
		{NodeSeen{At: at(1), Name: "a", NodeState: NodeState{Ready: true}}, Initialized},
		{NodeSeen{At: at(2), Name: "a", NodeState: ready}, Ready},
		{NodeSeen{At: at(3), Name: "a", NodeState: NodeState{Schedulable: true}}, Unready},
		{NodeSeen{At: at(4), Name: "a", NodeState: NodeState{ShutDown: true}}, ShutDown},
		{NodeSeen{At: at(5), Name: "a", NodeState: NodeState{ShutDown: true, Held: true}}, Held},
		{NodeSeen{At: at(6), Name: "a", NodeState: ready}, Ready},
		{NodeGone{At: at(7), Name: "a"}, Gone},
		{NodeSeen{At: at(8), Name: "a", NodeState: NodeState{Tainted: true}}, Tainted},
	}
	m := modelOf()
	for _, next := range way {
		m = m.Apply(next.event)
		if got := m.Nodes[0].Phase(); got != next.want {
			t.Errorf("after %+v the node is %s, want %s", next.event, got, next.want)
		}
	}
	if diff := cmp.Diff([]Node{{Name: "a", NodeState: NodeState{Tainted: true}, RegisteredAt: at(8)}}, m.Nodes); diff != "" {
		t.Errorf("another node of the name (-want +got):\n%s", diff)
	}
}

func anyEvent(t *rapid.T) Event {
	when := at(rapid.IntRange(0, 100).Draw(t, "at"))
	step := rapid.SampledFrom([]string{"c/one", "c/two", "x"}).Draw(t, "step")
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	flag := func(label string) bool { return rapid.Bool().Draw(t, label) }
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return StepBegan{when, step}
	case 1:
		return StepMoved{when, step, "further"}
	case 2:
		return StepEnded{At: when, Step: step, Err: rapid.SampledFrom([]string{"", "no"}).Draw(t, "err")}
	case 3:
		return ReplicaSeen{At: when, Name: name, Role: Leader}
	case 4:
		return Tick{when}
	case 5:
		return NodeGone{when, name}
	default:
		return NodeSeen{At: when, Name: name, NodeState: NodeState{
			Tainted: flag("tainted"), Ready: flag("ready"), Schedulable: flag("schedulable"), Type: rapid.SampledFrom([]string{"", "s", "l"}).Draw(t, "type"),
		}}
	}
}

// Whatever events come in whatever order: a model that was shown does not change afterwards, time does not go back, names are in
// order, and a node that got somewhere keeps the time of it, until it is deleted.
func TestModelIsAValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := modelOf(twoSteps())
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			before, copied := m, deepCopy(m)
			m = m.Apply(anyEvent(t))
			if diff := cmp.Diff(copied, before); diff != "" {
				t.Fatalf("Apply changed the model it was called on:\n%s", diff)
			}
			if m.Now.Before(before.Now) {
				t.Fatalf("time went back from %s to %s", before.Now, m.Now)
			}
			for i, node := range m.Nodes {
				if i > 0 && m.Nodes[i-1].Name >= node.Name {
					t.Fatalf("nodes out of order: %v", m.Nodes)
				}
			}
			for _, was := range before.Nodes {
				for _, is := range m.Nodes {
					if is.Name == was.Name && was.GoneAt.IsZero() && !was.InitializedAt.IsZero() && is.InitializedAt != was.InitializedAt {
						t.Fatalf("%s was initialized at %s and then at %s", is.Name, was.InitializedAt, is.InitializedAt)
					}
				}
			}
		}
	})
}

func deepCopy(m Model) Model {
	sections := []Section{}
	for _, c := range m.Sections {
		c.Steps = append([]Step(nil), c.Steps...)
		sections = append(sections, c)
	}
	m.Sections = sections
	m.Nodes = append([]Node(nil), m.Nodes...)
	m.Replicas = append([]Replica(nil), m.Replicas...)
	return m
}
