package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

var begin = time.Unix(1_000_000_000, 0)

func at(d time.Duration) time.Time { return begin.Add(d) }

// events are a demo in which everything happens that can be shown.
func events() []scenario.Event {
	second := time.Second
	initialized := scenario.NodeState{ProviderID: "sim://i-00000001", Zone: "sim-1a", Type: "sim.small", Internal: "10.0.0.2", External: "100.64.0.2"}
	ready := initialized
	ready.Ready, ready.Schedulable = true, true
	resized := ready
	resized.Type = "sim.large"
	return []scenario.Event{
		scenario.Opened{At: begin, Sections: []scenario.Section{
			{Name: "prepare", Title: "Programs", Steps: []scenario.Step{{Name: "prepare/build", Title: "everything is built"}}},
			{Name: "join", Title: "Nodes join", Steps: []scenario.Step{{Name: "join/ready", Title: "every node is ready"}}},
			{Name: "failover", Title: "Failover", Steps: []scenario.Step{
				{Name: "failover/lease", Title: "the standby holds the lease"}, {Name: "failover/exit", Title: "the old leader has ended in order"},
			}},
		}},
		scenario.StepBegan{At: begin, Step: "prepare/build"},
		scenario.StepMoved{At: at(second), Step: "prepare/build", Detail: "3 of 9 packages"},
		scenario.StepEnded{At: at(2 * second), Step: "prepare/build", Detail: "Kubernetes v1.36.3"},
		scenario.ReplicaSeen{At: at(2 * second), Name: "ccm-a", PID: 7, Role: scenario.Leader},
		scenario.StepBegan{At: at(2 * second), Step: "join/ready"},
		scenario.NodeSeen{At: at(2 * second), Name: "node-001", NodeState: scenario.NodeState{Tainted: true}},
		scenario.NodeSeen{At: at(2100 * time.Millisecond), Name: "node-001", NodeState: initialized},
		scenario.NodeSeen{At: at(2100 * time.Millisecond), Name: "node-001", NodeState: initialized},
		scenario.NodeSeen{At: at(2200 * time.Millisecond), Name: "node-002", NodeState: scenario.NodeState{Tainted: true}},
		scenario.NodeSeen{At: at(2300 * time.Millisecond), Name: "node-001", NodeState: ready},
		scenario.NodeSeen{At: at(3 * second), Name: "node-001", NodeState: resized},
		scenario.StepEnded{At: at(4 * second), Step: "join/ready", Detail: "4 lists of all instances"},
		scenario.StepBegan{At: at(4 * second), Step: "failover/lease"},
		scenario.Tick{At: at(5 * second)},
	}
}

func failure() scenario.Event {
	return scenario.StepEnded{At: at(64 * time.Second), Step: "failover/lease", Err: "it did not happen within 1m0s: no replica holds the lease"}
}

func modelOf(events []scenario.Event) scenario.Model {
	var m scenario.Model
	for _, event := range events {
		m = m.Apply(event)
	}
	return m
}

func TestPlain(t *testing.T) {
	var out bytes.Buffer
	plain := NewPlain(&out)
	var m scenario.Model
	for _, event := range append(events(), failure()) {
		m = m.Apply(event)
		plain.Show(event, m)
	}
	plain.Close()
	const node = "sim://i-00000001  sim-1a  sim.small  10.0.0.2  100.64.0.2"
	want := `
Programs
  0.00 s  ...  everything is built
  1.00 s  ...  3 of 9 packages
  2.00 s  ok   everything is built: Kubernetes v1.36.3
  2.00 s  ccm-a  leader, process 7

Nodes join
  2.00 s  ...  every node is ready
  2.00 s  node-001  tainted
  2.10 s  node-001  initialized after 0.10 s  ` + node + `
  2.20 s  node-002  tainted
  2.30 s  node-001  ready       after 0.30 s  ` + node + `
  3.00 s  node-001  sim.small -> sim.large
  4.00 s  ok   every node is ready: 4 lists of all instances

Failover
  4.00 s  ...  the standby holds the lease
1:04 min  FAIL the standby holds the lease: it did not happen within 1m0s: no replica holds the lease
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestPlainTellsWhatBecomesOfANode(t *testing.T) {
	seen := func(seconds int, state scenario.NodeState) scenario.Event {
		return scenario.NodeSeen{At: at(time.Duration(seconds) * time.Second), Name: "node-001", NodeState: state}
	}
	ready := scenario.NodeState{Ready: true, Schedulable: true, ProviderID: "sim://i-00000001"}
	var out bytes.Buffer
	plain := NewPlain(&out)
	m := scenario.Model{}.Apply(scenario.Opened{At: begin})
	for _, event := range []scenario.Event{
		seen(1, ready), seen(2, scenario.NodeState{}), seen(3, scenario.NodeState{}), seen(4, scenario.NodeState{ShutDown: true}), seen(5, ready),
		seen(6, scenario.NodeState{Held: true}), scenario.NodeGone{At: at(7 * time.Second), Name: "node-001"},
		seen(8, scenario.NodeState{Tainted: true}), seen(9, ready),
	} {
		m = m.Apply(event)
		plain.Show(event, m)
	}
	want := `
  1.00 s  node-001  ready       after 0.00 s  sim://i-00000001
  2.00 s  node-001  unready
  4.00 s  node-001  shut down
  5.00 s  node-001  ready
  6.00 s  node-001  held
  7.00 s  node-001  deleted
  8.00 s  node-001  tainted
  9.00 s  node-001  ready       after 1.00 s  sim://i-00000001
`
	if diff := cmp.Diff(want, "\n"+trimLines(out.String())); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	got := Summary(modelOf(append(events(), failure())), Style{Columns: 60})
	want := `
Summary
Programs
  ok   everything is built                           2.00 s
       Kubernetes v1.36.3
Nodes join
  ok   every node is ready                           2.00 s
       4 lists of all instances
Failover
  FAIL the standby holds the lease                 1:00 min
       it did not happen within 1m0s: no replica holds the
       lease
  --   the old leader has ended in order        not reached

2 of 4 steps happened, 1 failed, 1 not reached.
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	done := append(events(), scenario.StepEnded{At: at(5 * time.Second), Step: "failover/lease"},
		scenario.StepBegan{At: at(5 * time.Second), Step: "failover/exit"}, scenario.StepEnded{At: at(6 * time.Second), Step: "failover/exit"})
	if got := Summary(modelOf(done), Style{}); !strings.HasSuffix(got, "\nAll 4 steps happened, in 6.00 s.\n") {
		t.Errorf("summary of a success:\n%s", got)
	}
}

func TestNext(t *testing.T) {
	commands := []Command{{"mooring check", "look"}, {"make demo ARGS=--keep", "again"}}
	want := "\nNext\n  mooring check          look\n  make demo ARGS=--keep  again\n"
	if diff := cmp.Diff(want, Next(commands, Style{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	one := scenario.Model{}.Apply(scenario.Opened{At: begin, Sections: []scenario.Section{{Name: "a", Steps: []scenario.Step{{Name: "b"}}}}})
	if got := Summary(one, Style{}); !strings.Contains(got, "\n0 of 1 step happened, 0 failed, 1 not reached.\n") {
		t.Errorf("the summary of one step:\n%s", got)
	}
}

func TestPicture(t *testing.T) {
	for width, want := range map[int]string{
		120: `
Mooring   ccm-a leader                                                                                            5.00 s

✓ Programs  ✓ Nodes join  ● Failover

NODE      STATE    PROVIDER ID       ZONE    TYPE       INTERNAL  EXTERNAL    UNTAINTED  READY
node-001  ready    sim://i-00000001  sim-1a  sim.large  10.0.0.2  100.64.0.2  0.10 s     0.30 s
node-002  tainted                                                             2.80 s…    2.80 s…

✓ everything is built  Kubernetes v1.36.3
✓ every node is ready  4 lists of all instances
⠋ 1.00 s  the standby holds the lease`,
		80: `
Mooring   ccm-a leader                                                    5.00 s

✓ Programs  ✓ Nodes join  ● Failover

NODE      STATE    PROVIDER ID       ZONE    TYPE       UNTAINTED  READY
node-001  ready    sim://i-00000001  sim-1a  sim.large  0.10 s     0.30 s
node-002  tainted                                       2.80 s…    2.80 s…

✓ everything is built  Kubernetes v1.36.3
✓ every node is ready  4 lists of all instances
⠋ 1.00 s  the standby holds the lease`,
		30: `
Mooring   ccm-a leader  5.00 s

✓ ✓ ● Failover`,
	} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			model := modelOf(events())
			got := trimLines(paint(model, Style{}, width, 24))
			if width == 30 {
				got = strings.Join(strings.Split(got, "\n")[:3], "\n")
			}
			if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
				t.Errorf("picture (-want +got):\n%s", diff)
			}
			colored := paint(model, Style{Color: true}, width, 24)
			if plain := paint(model, Style{}, width, 24); ansi.Strip(colored) != plain || colored == plain {
				t.Errorf("colors change more than colors, or nothing:\n%s", colored)
			}
		})
	}
}

func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// Whatever the terminal is, the picture fits and shows what is under way.
func TestPictureFits(t *testing.T) {
	all := append(events(), scenario.StepEnded{At: at(64 * time.Second), Step: "failover/lease", Err: "no replica\nholds\nthe lease"})
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(1, 200).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height")
		model := modelOf(all[:rapid.IntRange(0, len(all)).Draw(t, "events")])
		style := Style{Color: rapid.Bool().Draw(t, "color")}
		lines := strings.Split(paint(model, style, width, height), "\n")
		if len(lines) > height {
			t.Fatalf("%d lines on %d", len(lines), height)
		}
		for _, line := range lines {
			if got := lipgloss.Width(line); got > width {
				t.Fatalf("a line of %d columns on %d: %q", got, width, line)
			}
		}
		if _, step, ok := model.Current(); ok && width > 60 && height > 1 && !strings.Contains(lines[len(lines)-1]+lines[max(0, len(lines)-2)], step.Title) {
			t.Fatalf("the current step %q is not at the end of:\n%s", step.Title, strings.Join(lines, "\n"))
		}
	})
}

func TestNoColor(t *testing.T) {
	for value, want := range map[string]bool{"": false, "1": true, "0": true, "yes": true} {
		t.Setenv("NO_COLOR", value)
		if got := NoColor(); got != want {
			t.Errorf("NO_COLOR=%q: %v, want %v", value, got, want)
		}
	}
}
