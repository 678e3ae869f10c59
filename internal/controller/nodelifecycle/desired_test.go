package nodelifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/names"
)

func TestDue(t *testing.T) {
	tests := []struct {
		name  string
		node  *corev1.Node
		owner owner
		want  bool
	}{
		{"not ready", node("a", corev1.ConditionFalse), ours, true},
		{"unknown", node("a", corev1.ConditionUnknown), ours, true},
		{"without a Ready condition", node("a", ""), ours, true},
		{"ready", node("a", corev1.ConditionTrue), ours, false},
		{"ready and tainted as shut down", node("a", corev1.ConditionTrue, shutdownTainted), ours, false},
		{"foreign", node("a", corev1.ConditionUnknown), foreign, false},
		{"being deleted", node("a", corev1.ConditionUnknown, beingDeleted), ours, false},
		{"young", node("a", corev1.ConditionFalse, createdAgo(time.Second)), ours, true},
		{"young, waits for initialization with a provider ID", node("a", corev1.ConditionFalse, createdAgo(2*time.Minute-1), initializing), ours, false},
		{"no longer young", node("a", corev1.ConditionFalse, createdAgo(2*time.Minute), initializing), ours, true},
		{"young, without a provider ID", node("a", corev1.ConditionUnknown, createdAgo(2*time.Minute-1), uninitialized), awaited, false},
		{"no longer young, without a provider ID", node("a", "", createdAgo(2*time.Minute), uninitialized), awaited, true},
		{"waits for initialization, its kubelet reports", node("a", corev1.ConditionFalse, uninitialized, reportedAgo(time.Minute)), awaited, false},
		{"waits for initialization, its kubelet is silent", node("a", corev1.ConditionFalse, uninitialized, reportedAgo(reportInterval*3/2)), awaited, true},
		{"waits for initialization, its silence was noticed", node("a", corev1.ConditionUnknown, uninitialized, reportedAgo(time.Minute)), awaited, true},
		{"has a provider ID, so it need not wait for initialization", node("a", corev1.ConditionFalse, reportedAgo(time.Second)), ours, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := factsOf(test.node, test.owner).due(testSettings(), today); got != test.want {
				t.Errorf("due = %t, want %t", got, test.want)
			}
		})
	}
}

func TestAnnouncedAndAcknowledged(t *testing.T) {
	tests := []struct {
		name                    string
		edit                    edit
		announced, acknowledged bool
	}{
		{"neither", func(*corev1.Node) {}, false, false},
		{"cluster autoscaler", withTaint("ToBeDeletedByClusterAutoscaler", "1700000000", corev1.TaintEffectNoSchedule), true, false},
		{"a mere candidate of the cluster autoscaler", withTaint("DeletionCandidateOfClusterAutoscaler", "1700000000",
			corev1.TaintEffectPreferNoSchedule), false, false},
		{"Karpenter", withTaint("karpenter.sh/disrupted", "", corev1.TaintEffectNoSchedule), true, false},
		{"Karpenter before 1.0", withTaint("karpenter.sh/disruption", "disrupting", corev1.TaintEffectNoSchedule), true, false},
		{"a deletion timestamp", beingDeleted, true, false},
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, false, false},
		{"acknowledged by UID", annotated("uid-a"), false, true},
		{"acknowledged by true", annotated("true"), false, true},
		{"the UID of an earlier node of this name", annotated("uid-b"), false, false},
		{"false", annotated("false"), false, false},
		{"empty", annotated(""), false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := mine(node("a", corev1.ConditionUnknown, test.edit))
			if got.announced != test.announced || got.acknowledged != test.acknowledged {
				t.Errorf("announced %t, acknowledged %t; want %t, %t", got.announced, got.acknowledged, test.announced, test.acknowledged)
			}
		})
	}
	nameless := node("a", corev1.ConditionUnknown, annotated(""))
	nameless.UID = ""
	if mine(nameless).acknowledged {
		t.Error("an empty annotation acknowledges a node without UID")
	}
}

func TestLimit(t *testing.T) {
	for _, test := range []struct {
		limit      Limit
		population int
		want       int
	}{
		{Limit{Percent: 25}, 100, 25},
		{Limit{Percent: 25}, 103, 25},
		{Limit{Percent: 25}, 40, 10},
		{Limit{Percent: 25}, 21, 10},
		{Limit{Percent: 25}, 13, 6},
		{Limit{Percent: 25}, 4, 2},
		{Limit{Percent: 25}, 1, 0},
		{Limit{Percent: 25}, 0, 0},
		{Limit{Percent: 60}, 10, 6},
		{Limit{Percent: 1}, 5000, 50},
		{Limit{Count: 5}, 1000, 5},
		{Limit{Count: 1}, 1, 1},
		{Limit{}, 1000, 0},
	} {
		if got := test.limit.of(test.population); got != test.want {
			t.Errorf("%+v of %d nodes is %d, want %d", test.limit, test.population, got, test.want)
		}
	}
	if !(Limit{Percent: 100}).Off() || (Limit{Percent: 99}).Off() || (Limit{Count: 100}).Off() {
		t.Error("want exactly 100% to be no limit")
	}
}

func TestWitnesses(t *testing.T) {
	ready := func(name string, edits ...edit) facts { return mine(node(name, corev1.ConditionTrue, edits...)) }
	lost := mine(node("lost", corev1.ConditionUnknown))
	leaving := ready("a", withTaint(names.TaintToBeDeleted, "", corev1.TaintEffectNoSchedule))
	tests := []struct {
		name  string
		nodes []facts
		want  []string
	}{
		{"one that is ready", []facts{lost, ready("w")}, []string{"w"}},
		{"a few are enough", []facts{ready("w4"), lost, ready("w1"), ready("w3"), ready("w2")}, []string{"w1", "w2", "w4"}},
		{"not one that is leaving", []facts{leaving, lost, ready("w")}, []string{"w"}},
		{"not one that is being deleted", []facts{ready("a", beingDeleted), lost, ready("w")}, []string{"w"}},
		{"not a foreign one", []facts{factsOf(node("f", corev1.ConditionTrue), foreign), lost}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, witness := range spread(witnesses(test.nodes)) {
				got = append(got, witness.name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("witnesses (-want +got):\n%s", diff)
			}
		})
	}
}
