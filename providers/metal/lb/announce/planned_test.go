package announce

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

// next is the next decision, after some time, with what is remembered of one.
func (c *cluster) next(out Output, after time.Duration) Output {
	c.Now, c.Announced, c.Local, c.Draining = c.Now.Add(after), out.Table, out.Local, out.Draining
	return Desired(c.Input)
}

// TestPolicyBecomesLocal edits a Service: its health-check node port is new, and its kube-proxies open it one after the other.
func TestPolicyBecomesLocal(t *testing.T) {
	const addr = "192.0.2.1"
	for name, test := range map[string]struct {
		on   []string
		want []string // next hops at each step
	}{
		"endpoints on all nodes": {[]string{"n1", "n2", "n3", "n4"}, nil},
		"endpoints on one node":  {[]string{"n3"}, []string{"10.0.0.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster().node(1).node(2).node(3).node(4).service("s", false, addr, test.on...)
			before := Desired(c.Input)
			c.service("s", true, addr, test.on...)
			for _, node := range test.on {
				c.health(node, checkPort, model.HealthUnknown)
			}
			out := c.next(before, 0)
			for i, node := range append([]string{""}, test.on...) {
				if node != "" {
					c.health(node, checkPort, model.Healthy)
					out = c.next(out, 100*time.Millisecond)
				}
				got := announced(out, addr)
				if len(test.want) > 0 && got != test.want[0] {
					t.Errorf("step %d: %q", i, got)
				}
				for hop := range strings.FieldsSeq(announced(before, addr)) {
					if len(test.on) == 4 && !slices.Contains(strings.Fields(got), hop) {
						t.Errorf("step %d: %s left, of %q remains %q", i, hop, announced(before, addr), got)
					}
				}
			}
			if got := len(strings.Fields(announced(out, addr))); got != len(test.on) {
				t.Errorf("at the end %d next hops", got)
			}
		})
	}
}

// TestPolicyBecomesCluster edits a Service: the nodes without endpoints drop its traffic until their kube-proxies have written other
// rules.
func TestPolicyBecomesCluster(t *testing.T) {
	const addr = "192.0.2.1"
	c := newCluster().node(1).node(2).node(3).service("s", true, addr, "n3")
	c.Settings.ClusterNextHops = 3
	out := Desired(c.Input)
	c.service("s", false, addr, "n3")
	out = c.next(out, 0)
	if got := announced(out, addr); got != "10.0.0.3" || !out.Next.Equal(start.Add(policyWait)) {
		t.Fatalf("at first %q until %s", got, out.Next)
	}
	if out = c.next(out, policyWait-1); announced(out, addr) != "10.0.0.3" {
		t.Fatalf("before the time is over %q", announced(out, addr))
	}
	if out = c.next(out, 1); len(strings.Fields(announced(out, addr))) != 3 || len(out.Local) != 0 || !out.Next.IsZero() {
		t.Fatalf("afterwards %q, %v, %s", announced(out, addr), out.Local, out.Next)
	}
	c.service("s", true, addr, "n3")
	out = c.next(out, 0)
	c.service("s", false, addr) // and no endpoint is left on a node
	c.Endpoints[key("s")] = model.ByFamily{{Any: true}}
	if out = c.next(out, time.Second); len(strings.Fields(announced(out, addr))) != 3 {
		t.Fatalf("without endpoints on nodes %q", announced(out, addr))
	}
}

// TestSinglePodMoves has the only pod of a Service with policy Local end on one node and begin on another, whose port has not been
// asked yet.
func TestSinglePodMoves(t *testing.T) {
	const addr = "192.0.2.1"
	c := newCluster().node(1).node(2).service("s", true, addr, "n1")
	out := Desired(c.Input)
	steps := []struct {
		change func()
		want   string
	}{
		{func() { c.service("s", true, addr, "n1", "n2").health("n2", checkPort, model.HealthUnknown) }, "10.0.0.1"},
		{func() { c.service("s", true, addr, "~n1", "n2").health("n2", checkPort, model.HealthUnknown) }, "10.0.0.1"},
		{func() { c.health("n1", checkPort, model.Unhealthy) }, "10.0.0.1"},
		{func() { c.service("s", true, addr, "n2").health("n2", checkPort, model.HealthUnknown) }, "10.0.0.2"},
		{func() { c.health("n2", checkPort, model.Healthy) }, "10.0.0.2"},
	}
	for i, step := range steps {
		step.change()
		out = c.next(out, 200*time.Millisecond)
		if got := announced(out, addr); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// TestPlannedChangesWithdrawNothing edits a Service and moves its pods while all nodes work: there is a next hop all the time, and each
// has an endpoint, or did have when the policy was Cluster.
func TestPlannedChangesWithdrawNothing(t *testing.T) {
	const addr = "192.0.2.1"
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 6).Draw(t, "nodes")
		c := newCluster()
		for i := 1; i <= nodes; i++ {
			c.node(i)
		}
		names := func(label string) []string {
			var on []string
			for i := 1; i <= nodes; i++ {
				if rapid.Bool().Draw(t, label) {
					on = append(on, fmt.Sprintf("n%d", i))
				}
			}
			if len(on) == 0 {
				on = []string{"n1"}
			}
			return on
		}
		local := rapid.Bool().Draw(t, "local at first")
		c.service("s", local, addr, names("on at first")...)
		out := Desired(c.Input)
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			known := map[model.Probe]model.Health{}
			for probe, health := range c.Health {
				if probe.Port != 0 && local {
					known[probe] = health
				}
			}
			local = rapid.Bool().Draw(t, "local")
			on := names("on")
			c.service("s", local, addr, on...)
			var unknown []string
			for _, node := range on { // what is asked for the first time is not known
				probe := model.Probe{Node: node, Port: checkPort}
				if c.Health[probe] = known[probe]; known[probe] != model.Healthy && local {
					unknown = append(unknown, node)
				}
			}
			for i := range len(unknown) + 1 {
				if out = c.next(out, 100*time.Millisecond); announced(out, addr) == "" {
					t.Fatalf("withdrawn: %s", out.Services[key("s")].Message())
				}
				if i < len(unknown) {
					c.health(unknown[i], checkPort, model.Healthy)
				}
			}
		}
	})
}
