package route

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

func (m member) with(status corev1.ConditionStatus, reason string) member {
	m.node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"},
		{Type: corev1.NodeNetworkUnavailable, Status: status, Reason: reason, LastTransitionTime: metav1.Time{Time: epoch}},
	}
	return m
}

// The rows of the reference's TestUpdateNetworkingCondition.
func TestConditionIsWrittenOnlyIfItChanges(t *testing.T) {
	none := node("a", "10.120.0.0/24")
	tests := []struct {
		name   string
		node   member
		routed bool
		want   bool
	}{
		{"none, routes are there", none, true, true},
		{"none, routes are missing", none, false, true},
		{"ours, routes are there", node("a").with(corev1.ConditionFalse, "RouteCreated"), true, false},
		{"a network plugin's, routes are there", node("a").with(corev1.ConditionFalse, "CalicoIsUp"), true, true},
		{"a foreign one, routes are missing", node("a").with(corev1.ConditionTrue, "SomeOtherReason"), false, true},
		{"ours, routes have gone", node("a").with(corev1.ConditionFalse, "RouteCreated"), false, true},
		{"ours, routes are missing", node("a").with(corev1.ConditionTrue, "NoRouteCreated"), false, false},
		{"ours, routes have come", node("a").with(corev1.ConditionTrue, "NoRouteCreated"), true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := newConditionWriter(nil).due(routedNode{test.node.node, test.routed}, time.Now()); got != test.want {
				t.Errorf("written: %t, want %t", got, test.want)
			}
		})
	}
}

func TestConditionIsNotWrittenTwiceWhileTheCacheLags(t *testing.T) {
	c := newConditionWriter(nil)
	m := node("a")
	m.node.ResourceVersion = "99"
	now := time.Now()
	c.rows[m.node.UID] = conditionRow{written: true, write: kit.OwnWrite{Version: "100", At: now}}
	if c.due(routedNode{m.node, true}, now) {
		t.Error("what was written would be written again")
	}
	if !c.due(routedNode{m.node, false}, now) {
		t.Error("the opposite of what was written would not be written")
	}
	c.forget([]routedNode{{m.node, true}}, now)
	if len(c.rows) != 1 {
		t.Error("what was written is forgotten before the cache shows it")
	}
	m.node.ResourceVersion = "100"
	if !c.due(routedNode{m.node, true}, now) {
		t.Error("the cache shows that another client has undone it, but it would not be written")
	}
	c.forget([]routedNode{{m.node, true}}, now)
	if len(c.rows) != 0 {
		t.Error("what was written is remembered although the cache is up to date")
	}
}

func TestConditionPatchTouchesNothingElse(t *testing.T) {
	now := epoch.Add(time.Hour)
	tests := []struct {
		name       string
		before     member
		routed     bool
		transition time.Time
	}{
		{"another status", node("a").with(corev1.ConditionTrue, "NoRouteCreated"), true, now},
		{"another reason only", node("a").with(corev1.ConditionFalse, "CalicoIsUp"), true, epoch},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			patch, err := conditionPatch(routedNode{test.before.node, test.routed}, now).Data(nil)
			if err != nil {
				t.Fatal(err)
			}
			original, err := json.Marshal(test.before.node)
			if err != nil {
				t.Fatal(err)
			}
			merged, err := strategicpatch.StrategicMergePatch(original, patch, corev1.Node{})
			if err != nil {
				t.Fatal(err)
			}
			var got corev1.Node
			if err := json.Unmarshal(merged, &got); err != nil {
				t.Fatal(err)
			}
			want := test.before.node.DeepCopy()
			condition := &want.Status.Conditions[1]
			condition.Status, condition.Reason, condition.Message = networkUnavailable(test.routed)
			condition.LastHeartbeatTime, condition.LastTransitionTime = metav1.Time{Time: now}, metav1.Time{Time: test.transition}
			if diff := cmp.Diff(want, &got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhoseConditionSaysWhat(t *testing.T) {
	members := []member{
		node("kept", "10.120.0.0/24"), node("made", "10.120.1.0/24", "a00:100::/24"), node("failed", "10.120.2.0/24", "a00:200::/24"),
		node("waits", "10.120.3.0/24"), node("twin", "10.120.0.0/24").created(time.Hour), node("bare"), node("withoutPodCIDRs"),
		node("foreign", "10.120.6.0/24").as(others), node("new", "10.120.7.0/24").as(undecided),
	}
	routes := []*cloudprovider.Route{route("kept", "10.120.0.0/24", "kept"), route("withoutPodCIDRs", "10.120.8.0/24", "withoutPodCIDRs")}
	wanted := desire(members, clusterCIDRs)
	planned := makePlan(wanted, routes, abilities{})
	admitted := allowed{removals: planned.removals}
	var outcomes []outcome
	for _, making := range planned.makes {
		if making.want.node == "waits" {
			admitted.waiting = append(admitted.waiting, *making.want)
			continue
		}
		admitted.makes = append(admitted.makes, making)
		one := outcome{action: making}
		if making.want.cidr == "a00:200::/24" {
			one.err = errors.New("no")
		}
		outcomes = append(outcomes, one)
	}
	routedNodes, missing := routedNodesOf(members, wanted, planned, unmet(planned, admitted, outcomes),
		func(lacking key) bool { return lacking.uid != "uid-waits" }) // a list that may lag denies its route
	got := map[string]bool{}
	for _, j := range routedNodes {
		got[j.node.Name] = j.routed
	}
	want := map[string]bool{"kept": true, "made": true, "failed": false, "twin": false, "withoutPodCIDRs": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes whose condition is written, and whether all their routes are there (-want +got):\n%s", diff)
	}
	if missing != 3 {
		t.Errorf("%d routes are missing, want 3", missing)
	}
}
