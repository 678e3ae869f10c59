package dead

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

// tainted returns the facts of a node whose machine has that power, by a controller that is trusted.
func tainted(node *v1.Node, power nodestate.Power, since time.Time) facts {
	f := factsOf(node, nil, metalpower.Observation{Since: since})
	f.trusted = power
	return f
}

func TestPlanTaints(t *testing.T) {
	long := now.Add(-time.Minute)
	for name, test := range map[string]struct {
		node     string
		power    nodestate.Power
		since    time.Time
		settings Settings
		want     string
	}{
		"off":                                {"unknownReady shutdown", nodestate.Off, long, settings, "taint"},
		"off, but the kubelet lives":         {"notReady shutdown", nodestate.Off, long, settings, ""},
		"off, by an unverified answer":       {"unknownReady shutdown", nodestate.Unverified, long, settings, ""},
		"off, and silent":                    {"unknownReady shutdown other", nodestate.Off, long, settings, "taint"},
		"off at the moment that counts":      {"unknownReady shutdown", nodestate.Off, now.Add(-30 * time.Second), settings, "taint"},
		"off, but not for long":              {"unknownReady shutdown", nodestate.Off, now.Add(-29 * time.Second), settings, ""},
		"off, but not enabled":               {"unknownReady shutdown", nodestate.Off, long, Settings{After: time.Second}, ""},
		"unknown":                            {"unknownReady shutdown", nodestate.Unknown, time.Time{}, settings, ""},
		"on":                                 {"unknownReady shutdown", nodestate.On, long, settings, ""},
		"off, but ready":                     {"ready shutdown", nodestate.Off, long, settings, ""},
		"off, but without a condition":       {"shutdown", nodestate.Off, long, settings, ""},
		"off, without the shutdown taint":    {"unknownReady", nodestate.Off, long, settings, ""},
		"off, being deleted":                 {"unknownReady shutdown deleting", nodestate.Off, long, settings, ""},
		"off, tainted already":               {"unknownReady shutdown ours marked", nodestate.Off, long, settings, ""},
		"off, tainted by an operator":        {"unknownReady shutdown theirs", nodestate.Off, long, settings, ""},
		"off, an operator removed the taint": {"unknownReady shutdown marked", nodestate.Off, long, settings, ""},
		"on and ready":                       {"ready shutdown ours marked", nodestate.On, long, settings, "untaint"},
		"on and ready, not enabled":          {"ready ours marked", nodestate.On, long, Settings{}, "untaint"},
		"on and ready, taint was taken off":  {"ready marked", nodestate.On, long, settings, "untaint"},
		"on and ready, an operator's taint":  {"ready ours", nodestate.On, long, settings, ""},
		"on, booting":                        {"notReady shutdown ours marked", nodestate.On, long, settings, ""},
		"unknown and ready":                  {"ready ours marked", nodestate.Unknown, time.Time{}, settings, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, action := range planTaints([]facts{tainted(nodeOf("n1", test.node), test.power, test.since)}, test.settings, now) {
				got = append(got, action.String())
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// apply does what the API server does with a plan.
func applied(t interface{ Fatal(...any) }, node *v1.Node, actions []action) *v1.Node {
	for _, action := range actions {
		patch, err := action.patch()
		if err != nil {
			t.Fatal(err)
		}
		before, err := json.Marshal(node)
		if err != nil {
			t.Fatal(err)
		}
		after, err := jsonpatch.MergePatch(before, patch)
		if err != nil {
			t.Fatal(err)
		}
		node = &v1.Node{}
		if err := json.Unmarshal(after, node); err != nil {
			t.Fatal(err)
		}
	}
	return node
}

func TestPatches(t *testing.T) {
	add := action{node: tainted(nodeOf("n1", "other notReady shutdown"), nodestate.Off, now), kind: putTaint}
	got := applied(t, nodeOf("n1", "other notReady shutdown"), []action{add})
	want := nodeOf("n1", "other notReady shutdown ours")
	want.Annotations[OutOfServiceAnnotation] = "2030-01-01T12:00:00Z"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tainted (-want +got):\n%s", diff)
	}
	remove := action{takeTaint, tainted(got, nodestate.On, now)}
	if diff := cmp.Diff(nodeOf("n1", "other notReady shutdown"), applied(t, got, []action{remove})); diff != "" {
		t.Errorf("untainted (-want +got):\n%s", diff)
	}
	replaced := action{takeTaint, tainted(nodeOf("n1", "ready theirs marked"), nodestate.On, now)}
	if diff := cmp.Diff(nodeOf("n1", "ready theirs"), applied(t, nodeOf("n1", "ready theirs marked"), []action{replaced})); diff != "" {
		t.Errorf("a foreign taint (-want +got):\n%s", diff)
	}
	patch, err := remove.patch()
	if err != nil || !strings.Contains(string(patch), `"uid":"uid","resourceVersion":"7"`) {
		t.Errorf("patch %s, %v", patch, err)
	}
}

func TestPlanTaintsProperties(t *testing.T) {
	words := []string{"ready", "notReady", "unknownReady", "shutdown", "ours", "theirs", "other", "marked", "deleting"}
	rapid.Check(t, func(t *rapid.T) {
		var node *v1.Node
		for node == nil || len(node.Status.Conditions) > 1 {
			node = nodeOf("n1", strings.Join(rapid.SliceOfDistinct(rapid.SampledFrom(words), rapid.ID[string]).Draw(t, "node"), " "))
		}
		machine := rapid.SampledFrom([]nodestate.Power{nodestate.Unknown, nodestate.On, nodestate.Unverified, nodestate.Off}).Draw(t, "power")
		since := now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
		settings := Settings{Enabled: rapid.Bool().Draw(t, "enabled"), After: 30 * time.Second}
		f := tainted(node, machine, since)
		actions := planTaints([]facts{f}, settings, now)
		after := applied(t, node, actions)
		// A fixed point.
		if again := planTaints([]facts{tainted(after, machine, since)}, settings, now); len(again) > 0 {
			t.Fatalf("a second plan has %v", again)
		}
		// Nothing is done on unknown, and a node that needs no look needs no action.
		if len(actions) > 0 && (machine == nodestate.Unknown || !f.needsTaintLook()) {
			t.Fatalf("%v, power %d", actions, machine)
		}
		// Taints of others stay.
		for _, before := range node.Spec.Taints {
			if before != taint() && !slices.Contains(after.Spec.Taints, before) {
				t.Fatalf("taint %v is lost: %v", before, after.Spec.Taints)
			}
		}
		// The taint is only there afterwards, when it was not, by all three witnesses.
		if tainted(after, machine, since).outOfService() && !f.outOfService() {
			if machine != nodestate.Off || !f.silent || !f.hasTaint(cloudproviderapi.TaintNodeShutdown) || !settings.Enabled || now.Sub(since) < settings.After {
				t.Fatalf("tainted without a reason: %+v", f)
			}
		}
	})
}
