package service

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// lastKnown are targets as nodes.
func lastKnown(targets []target) (nodes []*corev1.Node) {
	for _, one := range targets {
		nodes = append(nodes, one.node())
	}
	return nodes
}

// described shows a change as "+new -old", and one of all targets as "whole".
func described(change *targetChange) string {
	if change == nil {
		return "whole"
	}
	var parts []string
	for _, name := range namesOf(lastKnown(change.add)) {
		parts = append(parts, "+"+name)
	}
	for _, name := range namesOf(lastKnown(change.remove)) {
		parts = append(parts, "-"+name)
	}
	return strings.Join(parts, " ")
}

func withIP(ip string) func(*corev1.Node) {
	return addressed(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
}

func TestChangeFrom(t *testing.T) {
	a, b, c, d := nodeWith("a", withIP("10.0.0.1")), nodeWith("b", withIP("10.0.0.2")), nodeWith("c", withIP("10.0.0.3")), nodeWith("d")
	set := func(nodes ...*corev1.Node) *targetSet { return targetsOf(nodes) }
	for name, test := range map[string]struct {
		now, written *targetSet
		want         string
	}{
		"one came":                 {set(a, b, c), set(a, b), "+c"},
		"one went":                 {set(a, b), set(a, b, c), "-c"},
		"one came, one went":       {set(a, b, d), set(a, b, c), "+d -c"},
		"one is leaving":           {set(a, b, nodeWith("c", doomed)), set(a, b, c), "-c"},
		"the first":                {set(a), set(), "whole"},
		"the last":                 {set(), set(a), "whole"},
		"most":                     {set(a, b), set(c, d), "whole"},
		"one has another machine":  {set(a, b, nodeWith("c", identified("sim://new"))), set(a, b, c), "whole"},
		"one has another address":  {set(a, b, nodeWith("c", withIP("10.0.0.9"))), set(a, b, c), "whole"},
		"one left its provider ID": {set(a, b, nodeWith("d", identified(c.Spec.ProviderID))), set(a, b, c), "whole"},
		"one left its address":     {set(a, b, nodeWith("d", withIP("10.0.0.3"))), set(a, b, c), "whole"},
		"one shared its address":   {set(a, b), set(a, b, nodeWith("d", withIP("10.0.0.2"))), "whole"},
		"two without provider IDs": {set(a, b, nodeWith("d", identified(""))), set(a, b, nodeWith("e", identified(""))), "+d -e"},
	} {
		if got := described(test.now.changeFrom(test.written)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A change makes of what was written what is wanted, and touches nothing twice.
func TestAChangeArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := func(label string) *targetSet {
			var nodes []*corev1.Node
			for i := range 10 {
				switch rapid.IntRange(0, 5).Draw(t, label) {
				case 0:
				case 1:
					nodes = append(nodes, nodeWith(fmt.Sprintf("n%d", i), doomed))
				default:
					nodes = append(nodes, nodeWith(fmt.Sprintf("n%d", i)))
				}
			}
			return targetsOf(nodes)
		}
		written, now := pick("written"), pick("now")
		change := now.changeFrom(written)
		if change == nil {
			return
		}
		has := maps.Clone(written.members)
		for _, node := range lastKnown(change.add) {
			if _, there := has[node.Name]; there {
				t.Fatalf("%s is added twice", node.Name)
			}
			has[node.Name] = identityOf(node)
		}
		for _, node := range lastKnown(change.remove) {
			if _, there := has[node.Name]; !there {
				t.Fatalf("%s is removed and was not there", node.Name)
			}
			delete(has, node.Name)
		}
		if diff := cmp.Diff(now.members, has); diff != "" {
			t.Fatalf("targets (-want +got):\n%s", diff)
		}
	})
}

// Targets are changed by a difference only where the provider can, and only while it is certain what they are.
func TestWhenTargetsAreChangedByADifference(t *testing.T) {
	two, three := targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b")}), targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b"), nodeWith("c")})
	service := serviceWith(provided)
	certain := madeFor(service, two, at("192.0.2.1"))
	certain.writtenTargets, certain.wholeAt = two, noon.Add(-rarely+time.Second)
	uncertain, long := *certain, *certain
	uncertain.writtenTargets, long.wholeAt = nil, noon.Add(-rarely)
	for name, test := range map[string]struct {
		can  bool
		made *made
		want string
	}{
		"certain":             {true, certain, "+c"},
		"the provider cannot": {false, certain, "whole"},
		"uncertain":           {true, &uncertain, "whole"},
		"not for long":        {true, &long, "whole"},
	} {
		want := wanting(service, true, three)
		want.byDifference = test.can
		plan := planFor(want, observed{service: service, made: test.made}, noon)
		if len(plan) != 1 || plan[0].verb != verbRetarget || described(plan[0].change) != test.want {
			t.Errorf("%s: %v, %q; want to change targets by %q", name, verbs(plan), described(plan[0].change), test.want)
		}
	}
}

// After an update whose answer is lost, it is not certain what the targets are: they are ensured as a whole. Then differences do.
func TestAfterAnErrorTargetsAreWrittenWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1, func(e *engine) { e.cloud.byDifference = true })
		defer e.stop()
		for _, name := range []string{"a", "b", "c"} {
			e.changeNode(name, nodeWith(name))
		}
		e.addService(serviceWith())
		time.Sleep(time.Minute)
		counts := func() string {
			return fmt.Sprintf("%d ensured, %d changed, %d updated", e.cloud.count("ensure"), e.cloud.count("change"), e.cloud.count("update"))
		}
		step := func(what, want string, change func()) {
			t.Helper()
			change()
			time.Sleep(time.Minute)
			if err := e.mismatch(); err != nil || counts() != want {
				t.Errorf("%s: %s, want %s; %v", what, counts(), want, err)
			}
		}
		step("one comes", "1 ensured, 1 changed, 0 updated", func() { e.changeNode("d", nodeWith("d")) })
		lost := 0
		e.cloud.setChance(func(operation string) (time.Duration, error) {
			if lost++; operation == "change" && lost == 1 {
				return 0, errLost
			}
			return 0, nil
		})
		step("the answer is lost", "2 ensured, 2 changed, 0 updated", func() { e.changeNode("d", nil) })
		step("one comes again", "2 ensured, 3 changed, 0 updated", func() { e.changeNode("d", nodeWith("d")) })
		step("one changes", "2 ensured, 3 changed, 1 updated", func() { e.changeNode("d", nodeWith("d", withIP("10.9.9.9"))) })
		time.Sleep(rarely)
		step("an hour later", "2 ensured, 3 changed, 2 updated", func() { e.changeNode("d", nil) })
	})
}
