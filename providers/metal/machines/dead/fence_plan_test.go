package dead

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

var (
	now  = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	long = now.Add(-time.Hour)
)

var settings = Settings{Enabled: true, After: 30 * time.Second, Fence: Fence{
	Enabled: true, After: 5 * time.Minute, MaxUnknownPercent: 49, Interval: time.Minute, Timeout: 30 * time.Second,
}}

// calm is a situation in which nothing but a node itself holds its machine's power-off.
var calm = situation{nodes: 10, silent: 1, answering: long, ownKnown: true}

// nodeOf builds a node of words: ready, notReady or unknownReady; shutdown, ours, theirs, other (taints); marked, excluded, control, deleting;
// stranger, which has no provider ID.
func nodeOf(name, words string) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: "uid", ResourceVersion: "7", Annotations: map[string]string{"a": "b"},
	}, Spec: v1.NodeSpec{ProviderID: "metal://" + name}}
	ready := map[string]v1.ConditionStatus{"ready": v1.ConditionTrue, "notReady": v1.ConditionFalse, "unknownReady": v1.ConditionUnknown}
	taints := map[string]v1.Taint{
		"shutdown": {Key: cloudproviderapi.TaintNodeShutdown, Effect: v1.TaintEffectNoSchedule}, "ours": taint(),
		"theirs": {Key: v1.TaintNodeOutOfService, Value: "mine", Effect: v1.TaintEffectNoExecute},
		"other":  {Key: "other", Effect: v1.TaintEffectNoSchedule},
	}
	for word := range strings.FieldsSeq(words) {
		if status, ok := ready[word]; ok {
			node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{Type: v1.NodeReady, Status: status})
		}
		if one, ok := taints[word]; ok {
			node.Spec.Taints = append(node.Spec.Taints, one)
		}
		switch word {
		case "marked":
			node.Annotations[OutOfServiceAnnotation] = "2030-01-01T11:00:00Z"
		case "excluded":
			node.Annotations[ExcludeAnnotation] = ""
		case "control":
			node.Labels = map[string]string{nodestate.ControlPlaneLabel: ""}
		case "deleting":
			node.DeletionTimestamp = &metav1.Time{Time: now}
		case "stranger":
			node.Spec.ProviderID = ""
		}
	}
	return node
}

// machineOf is the machine of a node.
func machineOf(name string) *config.Machine { return &config.Machine{ID: name} }

// factsWith returns the facts of a node whose machine has that power, by all that is known.
func factsWith(node *v1.Node, named *config.Machine, power nodestate.Power) facts {
	f := factsOf(node, named, metalpower.Observation{})
	f.trusted, f.verified = power, power
	return f
}

// read returns the facts of a node of words, with attempted and fenced, which the record says of its machine.
func read(name, words string, power nodestate.Power, own bool) facts {
	f := factsWith(nodeOf(name, words), machineOf(name), power)
	if f.own = own; strings.Contains(words, "attempted") {
		f.attempt, f.attempted = attempt{At: now.Add(-time.Hour), Count: 1, Fenced: strings.Contains(words, "fenced")}, true
	}
	return f
}

func TestPlanFences(t *testing.T) {
	for name, test := range map[string]struct {
		node   string
		power  nodestate.Power
		change func(*facts, *situation, *Fence)
		want   string
	}{
		"silent, with power":             {"unknownReady", nodestate.On, nil, "off"},
		"silent for exactly long enough": {"unknownReady", nodestate.On, func(f *facts, _ *situation, _ *Fence) { f.silentSince = now.Add(-5 * time.Minute) }, "off"},
		"silent, but not for long":       {"unknownReady", nodestate.On, func(f *facts, _ *situation, _ *Fence) { f.silentSince = now.Add(-299 * time.Second) }, "not-silent-for-long"},
		"not enabled":                    {"unknownReady", nodestate.On, func(_ *facts, _ *situation, s *Fence) { s.Enabled = false }, ""},
		"ready":                          {"ready", nodestate.On, nil, ""},
		"a kubelet that is not ready":    {"notReady", nodestate.On, nil, ""},
		"no condition":                   {"", nodestate.On, nil, ""},
		"being deleted":                  {"unknownReady deleting", nodestate.On, nil, ""},
		"off":                            {"unknownReady", nodestate.Off, nil, ""},
		"power unknown":                  {"unknownReady", nodestate.Unknown, nil, "power-unknown"},
		"a foreign controller":           {"unknownReady", nodestate.Unverified, nil, "unverified-bmc"},
		"not proven":                     {"unknownReady stranger", nodestate.On, nil, "unproven-machine"},
		"the inventory names another":    {"unknownReady", nodestate.On, func(f *facts, _ *situation, _ *Fence) { f.machine = "" }, "unproven-machine"},
		"another node is the machine":    {"unknownReady", nodestate.On, func(f *facts, _ *situation, _ *Fence) { f.twins = []string{"n2"} }, "several-nodes"},
		"no record":                      {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.unrecorded = true }, "no-record"},
		"excluded":                       {"unknownReady excluded", nodestate.On, nil, "excluded"},
		"of the control plane":           {"unknownReady control", nodestate.On, nil, "control-plane"},
		"this replica's":                 {"unknownReady", nodestate.On, func(f *facts, _ *situation, _ *Fence) { f.own = true }, "own-machine"},
		"its replica is unknown":         {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.ownKnown = false }, "own-machine-unknown"},
		"as many as may be":              {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.nodes, s.silent = 100, 49 }, "off"},
		"too many":                       {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.nodes, s.silent = 100, 50 }, "too-many-unknown"},
		"one of three":                   {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.nodes = 3 }, "off"},
		"one of two":                     {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.nodes = 2 }, "too-many-unknown"},
		"the API server is silent":       {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.answering = time.Time{} }, "api-server"},
		"the API server was silent":      {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.answering = now.Add(-299 * time.Second) }, "api-server"},
		"it failed a moment ago":         {"unknownReady attempted", nodestate.On, func(f *facts, _ *situation, _ *Fence) { f.attempt.At = now.Add(-59 * time.Second) }, "failed-before"},
		"it failed again and again": {"unknownReady attempted", nodestate.On, func(f *facts, _ *situation, _ *Fence) {
			f.attempt = attempt{At: now.Add(-599 * time.Second), Count: 1000}
		}, "failed-before"},
		"it failed a while ago":           {"unknownReady attempted", nodestate.On, func(f *facts, _ *situation, _ *Fence) { f.attempt.At = now.Add(-time.Minute) }, "off"},
		"another one is being turned off": {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.attempting = true }, "one-at-a-time"},
		"another one was turned off":      {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.lastAttempt = now.Add(-59 * time.Second) }, "rate-limit"},
		"another leader may be at it": {"unknownReady", nodestate.On, func(_ *facts, s *situation, c *Fence) {
			s.lastAttempt = now.Add(-20 * time.Second)
			c.Interval = time.Second
		}, "rate-limit"},
		"another one was, some time ago":   {"unknownReady", nodestate.On, func(_ *facts, s *situation, _ *Fence) { s.lastAttempt = now.Add(-time.Minute) }, "off"},
		"turned on by an operator":         {"unknownReady attempted fenced", nodestate.On, nil, "fenced-before"},
		"off after an attempt":             {"unknownReady attempted", nodestate.Off, nil, "fenced"},
		"off, while an attempt goes on":    {"unknownReady attempted", nodestate.Off, func(_ *facts, s *situation, _ *Fence) { s.attempting = true }, ""},
		"off, and known to be":             {"unknownReady attempted fenced", nodestate.Off, nil, ""},
		"on and ready again":               {"ready attempted fenced", nodestate.On, nil, "clear"},
		"on and ready, it had failed":      {"ready attempted", nodestate.On, nil, "clear"},
		"on and ready, not enabled by now": {"ready attempted fenced", nodestate.On, func(_ *facts, _ *situation, s *Fence) { s.Enabled = false }, ""},
		"ready, but power unknown":         {"ready attempted fenced", nodestate.Unknown, nil, ""},
		"booting":                          {"notReady attempted fenced", nodestate.On, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, s, c := read("n1", test.node, test.power, false), calm, settings
			f.silentSince = long
			if test.change != nil {
				test.change(&f, &s, &c.Fence)
			}
			actions, held := planFences([]facts{f}, s, c, now)
			got := string(held["n1"])
			for _, action := range actions {
				got += action.String()
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// One machine at a time, and the one whose last attempt is the longest ago first: one that fails forever holds up no other.
func TestOrder(t *testing.T) {
	node := func(name string, attempted, silentSince time.Time) facts {
		f := read(name, "unknownReady", nodestate.On, false)
		f.attempt.At, f.silentSince = attempted, silentSince
		return f
	}
	nodes := []facts{
		node("a-failed-lately", now.Add(-2*time.Minute), long), node("b-failed", now.Add(-3*time.Minute), long),
		node("d", time.Time{}, now.Add(-10*time.Minute)), node("c", time.Time{}, now.Add(-10*time.Minute)), node("e", time.Time{}, long),
	}
	s := calm
	s.nodes, s.silent = 20, 5
	var order []string
	for len(nodes) > 0 {
		actions, held := planFences(nodes, s, settings, now)
		if len(actions) != 1 || actions[0].kind != turnOff || len(held) != len(nodes)-1 {
			t.Fatalf("%d actions, held %v", len(actions), held)
		}
		chosen := actions[0].node.name
		order = append(order, chosen)
		nodes = slices.DeleteFunc(nodes, func(f facts) bool { return f.name == chosen })
	}
	if got := strings.Join(order, " "); got != "e c d b-failed a-failed-lately" {
		t.Errorf("order %s", got)
	}
}

// The record has what was done to machines of the inventory, and nothing that a Node says.
func TestRecord(t *testing.T) {
	f := read("n1", "unknownReady", nodestate.On, false)
	record := attempts{Machines: map[string]attempt{"gone": {Count: 1}, "n2": {At: long, Count: 2}}}
	known := func(id string) bool { return id != "gone" }
	for _, step := range []struct {
		kind kind
		want attempts
	}{
		{turnOff, attempts{Last: now, Machines: map[string]attempt{"n1": {At: now, Count: 1}, "n2": {At: long, Count: 2}}}},
		{markFenced, attempts{Last: now, Machines: map[string]attempt{"n1": {At: now, Count: 1, Fenced: true}, "n2": {At: long, Count: 2}}}},
		{clear, attempts{Last: now, Machines: map[string]attempt{"n2": {At: long, Count: 2}}}},
	} {
		record = action{step.kind, f}.of(record, now, known)
		if diff := cmp.Diff(step.want, record); diff != "" {
			t.Errorf("%v (-want +got):\n%s", step.kind, diff)
		}
		f.attempt, f.attempted = record.of("n1")
	}
	text := `{"last":"2999-01-01T00:00:00Z","machines":{"n1":{"at":"2999-01-01T00:00:00Z","count":-7}}}`
	if read, err := decode(text, now); err != nil || !read.Last.Equal(now) || !read.Machines["n1"].At.Equal(now) || read.Machines["n1"].Count != 0 {
		t.Errorf("a time that has not come yet: %+v, %v", read, err)
	}
}

// One node says that it is a machine which another one is: neither is proven alone. The inventory's word keeps a machine on.
func TestProof(t *testing.T) {
	twins := twinsOf(map[string][]string{"evil": {"cp-1", "evil"}, "cp-1": {"cp-1"}, "n2": {"n2"}, "none": nil})
	if diff := cmp.Diff(map[string][]string{"evil": {"cp-1"}, "cp-1": {"evil"}}, twins); diff != "" {
		t.Errorf("twins (-want +got):\n%s", diff)
	}
	evil := nodeOf("worker-7", "unknownReady")
	evil.Spec.ProviderID = "metal://cp-1"
	for name, test := range map[string]struct {
		named *config.Machine
		want  holdReason
	}{
		"no machine has its name": {nil, heldUnproven},
		"its name is another's":   {machineOf("worker-7"), heldUnproven},
	} {
		f := factsWith(evil, test.named, nodestate.On)
		if f.silentSince = long; holdOf(f, calm, settings.Fence, now) != test.want {
			t.Errorf("%s: held %q", name, holdOf(f, calm, settings.Fence, now))
		}
	}
	own := machineOf("n1")
	own.Labels = map[string]string{nodestate.ControlPlaneLabel: ""}
	if f := factsWith(nodeOf("n1", "unknownReady"), own, nodestate.On); holdOf(f, calm, settings.Fence, now) != heldControl {
		t.Errorf("of the control plane by the inventory: held %q", holdOf(f, calm, settings.Fence, now))
	}
	own = machineOf("n1")
	own.Maintenance = true
	if f := factsWith(nodeOf("n1", "unknownReady"), own, nodestate.On); holdOf(f, calm, settings.Fence, now) != heldExcluded {
		t.Errorf("under maintenance: held %q", holdOf(f, calm, settings.Fence, now))
	}
}

// Whatever there is, at most one machine is turned off, and only one that everything speaks for.
func TestNothingIsTurnedOffWithoutAReason(t *testing.T) {
	words := []string{"ready", "notReady", "unknownReady", "excluded", "control", "deleting", "attempted", "fenced", "stranger"}
	rapid.Check(t, func(t *rapid.T) {
		ago := func(name string) time.Time {
			return now.Add(-time.Duration(rapid.IntRange(0, 700).Draw(t, name)) * time.Second)
		}
		s := situation{
			nodes: rapid.IntRange(1, 20).Draw(t, "nodes"), attempting: rapid.Bool().Draw(t, "attempting"),
			ownKnown: rapid.Bool().Draw(t, "ownKnown"), answering: ago("answering"), lastAttempt: ago("last"),
		}
		var nodes []facts
		for i := range s.nodes {
			drawn := rapid.SliceOfNDistinct(rapid.SampledFrom(words), 0, 3, rapid.ID[string]).Draw(t, "node")
			f := read(fmt.Sprint("n", i), strings.Join(drawn, " "),
				rapid.SampledFrom([]nodestate.Power{nodestate.Unknown, nodestate.On, nodestate.Off, nodestate.Unverified}).Draw(t, "power"),
				rapid.IntRange(0, 9).Draw(t, "own") == 0)
			f.silentSince = ago("silentSince")
			if f.attempted {
				f.attempt.At = ago("attempt")
			}
			if rapid.IntRange(0, 9).Draw(t, "twin") == 0 {
				f.twins = []string{"twin"}
			}
			if f.silent {
				s.silent++
			}
			nodes = append(nodes, f)
		}
		actions, held := planFences(nodes, s, settings, now)
		turned := 0
		for _, action := range actions {
			if action.kind != turnOff {
				continue
			}
			turned++
			f := action.node
			if !f.silent || f.ready || f.deleting || f.excluded || f.controlPlane || f.own || f.attempt.Fenced || f.machine == "" || len(f.twins) > 0 || f.verified != nodestate.On || held[f.name] != "" ||
				now.Sub(f.silentSince) < settings.Fence.After || now.Before(f.attempt.notBefore()) {
				t.Fatalf("turned off: %+v", f)
			}
		}
		if turned > 1 || turned == 1 && (s.attempting || !s.ownKnown || s.silent*100 > s.nodes*49 ||
			now.Sub(s.answering) < settings.Fence.After || now.Sub(s.lastAttempt) < settings.Fence.Interval) {
			t.Fatalf("%d are turned off: %+v", turned, s)
		}
	})
}
