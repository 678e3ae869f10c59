package nodelifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// cluster returns count nodes named prefix0, prefix1 and so on.
func cluster(prefix string, count int, ready corev1.ConditionStatus, edits ...edit) (nodes []facts, names []string) {
	for i := range count {
		name := fmt.Sprintf("%s%d", prefix, i)
		nodes, names = append(nodes, mine(node(name, ready, edits...))), append(names, name)
	}
	return nodes, names
}

// guardCase is what the guard makes of a number of equal observations.
type guardCase struct {
	nodes    []facts
	rounds   int
	settings func(*Settings)
	sayings  []saying
	want     []string
	held     map[HoldReason]int
}

func checkGuard(t *testing.T, cases map[string]guardCase) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			settings := testSettings()
			if test.settings != nil {
				test.settings(&settings)
			}
			planned, _ := rounds(test.rounds, test.nodes, settings, test.sayings...)
			if diff := cmp.Diff(test.want, show(planned)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if len(test.held)+len(planned.held) > 0 {
				if diff := cmp.Diff(test.held, planned.held); diff != "" {
					t.Errorf("held (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// atMost limits deletions to a number of nodes, or to a share.
func atMost(limit Limit) func(*Settings) { return func(s *Settings) { s.Limit = limit } }

// with returns nodes and some more.
func with(nodes []facts, more ...facts) []facts { return append(slices.Clone(nodes), more...) }

func TestTheLimit(t *testing.T) {
	running, alive := cluster("r", 6, corev1.ConditionTrue)
	lost, missing := cluster("x", 4, corev1.ConditionUnknown)
	removed, removedNames := cluster("y", 4, corev1.ConditionUnknown, withTaint(taintKarpenter, "", corev1.TaintEffectNoSchedule))
	all, lives := with(running, lost...), there(provider.InstanceRunning, alive...)
	confirmed := mine(node("x3", corev1.ConditionUnknown, annotated("true")))
	checkGuard(t, map[string]guardCase{
		"one observation is not enough": {nodes: all, rounds: 1, sayings: []saying{gone("x0"), lives}},
		"one observation is enough if the operator says so": {
			nodes: all, rounds: 1, settings: func(s *Settings) { s.Confirmations = 1 }, sayings: []saying{gone("x0"), lives}, want: []string{"delete x0"},
		},
		"a share allows at least ten, but not more than half": {
			nodes: with(running[:2], lost...), rounds: 2, sayings: []saying{gone(missing...), lives},
			want: []string{"hold x3: DeletionLimitReached", "delete x0", "delete x1", "delete x2"}, held: map[HoldReason]int{HoldLimitReached: 1},
		},
		"a count allows what it says": {
			nodes: all, rounds: 2, settings: atMost(Limit{Count: 1}), sayings: []saying{gone(missing...), lives},
			want: []string{"hold x1: DeletionLimitReached", "hold x2: DeletionLimitReached", "hold x3: DeletionLimitReached", "delete x0"},
			held: map[HoldReason]int{HoldLimitReached: 3},
		},
		"no limit": {
			nodes: all, rounds: 2, settings: atMost(Limit{Percent: 100}), sayings: []saying{gone(missing...), lives},
			want: []string{"delete x0", "delete x1", "delete x2", "delete x3"},
		},
		"announced removals do not count": {
			nodes: with(running, with(removed, lost[0])...), rounds: 2, settings: atMost(Limit{Count: 1}),
			sayings: []saying{gone(append(removedNames, "x0")...), lives},
			want:    []string{"delete y0: announced", "delete y1: announced", "delete y2: announced", "delete y3: announced", "delete x0"},
		},
		"acknowledged removals do not count": {
			nodes: with(running, confirmed), rounds: 2, settings: atMost(Limit{}), sayings: []saying{gone("x3"), lives},
			want: []string{"delete x3: acknowledged"},
		},
		"already being deleted": {
			nodes: with(running, mine(node("x0", corev1.ConditionUnknown, beingDeleted))), rounds: 2, sayings: []saying{gone("x0"), lives},
		},
	})
}

func TestDoubt(t *testing.T) {
	running, alive := cluster("r", 6, corev1.ConditionTrue)
	lost, missing := cluster("x", 2, corev1.ConditionUnknown)
	removed, removedNames := cluster("y", 2, corev1.ConditionUnknown, withTaint(taintKarpenter, "", corev1.TaintEffectNoSchedule))
	all, everything := with(running, lost...), gone(append(missing, alive...)...)
	lone := func(edits ...edit) []facts { return []facts{mine(node("x0", corev1.ConditionUnknown, edits...))} }
	holdBoth := []string{"hold x0: EveryInstanceGone", "hold x1: EveryInstanceGone"}
	lives := there(provider.InstanceRunning, alive...)
	reported, reportedNames := cluster("u", 4, corev1.ConditionFalse, reporting, annotated("true"))
	checkGuard(t, map[string]guardCase{
		"every instance gone at once, as in an empty list": {
			nodes: all, rounds: 2, sayings: []saying{everything}, want: holdBoth, held: map[HoldReason]int{HoldEveryInstanceGone: 2},
		},
		"every instance gone at once, without a limit": {
			nodes: all, rounds: 2, settings: atMost(Limit{Percent: 100}), sayings: []saying{everything}, want: holdBoth,
			held: map[HoldReason]int{HoldEveryInstanceGone: 2},
		},
		"every instance gone at once, announced, as when a cluster is scaled to zero": {
			nodes: removed, rounds: 7, settings: halfMinute, sayings: []saying{gone(removedNames...)},
			want: []string{"delete y0: announced", "delete y1: announced"},
		},
		"the same, for less than the time": {nodes: removed, rounds: 6, settings: halfMinute, sayings: []saying{gone(removedNames...)}},
		"the same, seen once":              {nodes: removed, rounds: 1, sayings: []saying{gone(removedNames...)}},
		"the same beside one that is silent": {
			nodes: with(removed, lost[0]), rounds: 7, settings: halfMinute, sayings: []saying{gone(append(removedNames, "x0")...)},
			want: []string{"hold x0: EveryInstanceGone", "delete y0: announced", "delete y1: announced"},
			held: map[HoldReason]int{HoldEveryInstanceGone: 1},
		},
		"the same beside one that is ready": {
			nodes: with(removed, running[0]), rounds: 7, settings: halfMinute, sayings: []saying{gone(append(removedNames, "r0")...)},
			want: []string{"hold y0: EveryInstanceGone", "hold y1: EveryInstanceGone"}, held: map[HoldReason]int{HoldEveryInstanceGone: 2},
		},
		"the same, and a kubelet still reports": {
			nodes: with(removed, mine(node("u0", corev1.ConditionFalse, reporting))), rounds: 7, settings: halfMinute,
			sayings: []saying{gone(append(removedNames, "u0")...)},
			want:    []string{"hold u0: KubeletReports", "hold y0: EveryInstanceGone", "hold y1: EveryInstanceGone"},
			held:    map[HoldReason]int{HoldEveryInstanceGone: 2, HoldKubeletReports: 1},
		},
		"the only node there is": {
			nodes: lone(), rounds: 2, sayings: []saying{gone("x0")}, want: holdBoth[:1], held: map[HoldReason]int{HoldEveryInstanceGone: 1},
		},
		"acknowledged, though every instance is gone": {
			nodes: lone(annotated("uid-x0")), rounds: 2, sayings: []saying{gone("x0")}, want: []string{"delete x0: acknowledged"},
		},
		"acknowledged, but not confirmed yet": {nodes: lone(annotated("uid-x0")), rounds: 1, sayings: []saying{gone("x0")}},
		"acknowledged, but ready": {
			nodes: []facts{mine(node("x0", corev1.ConditionTrue, annotated("true"))), running[0]}, rounds: 5,
			sayings: []saying{gone("x0"), there(provider.InstanceRunning, "r0")},
		},
		"a list that lacks running nodes": {
			nodes: all, rounds: 2, sayings: []saying{gone("x0", "r0", "r1", "r2", "r3"), there(provider.InstanceRunning, "r4", "r5")},
			want: []string{"hold x0: RunningNodesDenied"}, held: map[HoldReason]int{HoldRunningNodesDenied: 1},
		},
		"a list that lacks nodes whose end is acknowledged, though their kubelets report": {
			nodes: with(running, with(reported, lost[0])...), rounds: 2, sayings: []saying{gone(append(reportedNames, "x0")...), lives},
			want: []string{"delete u0: acknowledged", "delete u1: acknowledged", "delete u2: acknowledged", "delete u3: acknowledged", "delete x0"},
		},
		"a list that lacks a node that was running a moment ago": {
			nodes: all, rounds: 2, sayings: []saying{gone("x0", "r0"), there(provider.InstanceRunning, alive[1:]...)}, want: []string{"delete x0"},
		},
	})
}

func TestWhatHeldNodesShow(t *testing.T) {
	running, alive := cluster("r", 6, corev1.ConditionTrue)
	lives := there(provider.InstanceRunning, alive...)
	lone := func(edits ...edit) []facts { return []facts{mine(node("x0", corev1.ConditionUnknown, edits...))} }
	checkGuard(t, map[string]guardCase{
		"held for the same reason as before": {
			nodes: lone(showing(HoldEveryInstanceGone)), rounds: 3, sayings: []saying{gone("x0")}, held: map[HoldReason]int{HoldEveryInstanceGone: 1},
		},
		"held for another reason than before": {
			nodes: with(running, lone(showing(HoldEveryInstanceGone))...), rounds: 2, settings: atMost(Limit{}), sayings: []saying{gone("x0"), lives},
			want: []string{"hold x0: DeletionLimitReached"}, held: map[HoldReason]int{HoldLimitReached: 1},
		},
		"held before, found now": {
			nodes: lone(showing(HoldEveryInstanceGone)), rounds: 1, sayings: []saying{there(provider.InstanceStopped, "x0")},
			want: []string{"release x0", "taint x0"},
		},
		"held before, ready now": {
			nodes: []facts{mine(node("x0", corev1.ConditionTrue, showing(HoldLimitReached)))}, rounds: 1, want: []string{"release x0"},
		},
		"held before, nothing is said now": {
			nodes: lone(showing(HoldLimitReached)), rounds: 1, held: map[HoldReason]int{HoldLimitReached: 1},
		},
		"held before by another leader, not confirmed yet": {
			nodes: lone(showing(HoldLimitReached)), rounds: 1, sayings: []saying{gone("x0")}, held: map[HoldReason]int{HoldLimitReached: 1},
		},
		"held before, and no longer ours": {nodes: []facts{factsOf(node("x0", corev1.ConditionUnknown, showing(HoldLimitReached)), foreign)}, rounds: 1},
		"a node without provider ID gets one event that it is held": {
			nodes: lone(uninitialized), rounds: 2, sayings: []saying{gone("x0")}, want: []string{"hold x0: EveryInstanceGone"},
			held: map[HoldReason]int{HoldEveryInstanceGone: 1},
		},
		"and not again": {nodes: lone(uninitialized), rounds: 3, sayings: []saying{gone("x0")}, held: map[HoldReason]int{HoldEveryInstanceGone: 1}},
	})
}

// A row of denials is what the same instance was denied by, not by how many answers in all.
func TestConfirmations(t *testing.T) {
	nodes := []facts{mine(node("x", corev1.ConditionUnknown)), mine(node("r", corev1.ConditionTrue))}
	witness := there(provider.InstanceRunning, "r")
	type step struct {
		after   time.Duration
		sayings []saying
		at      time.Duration // of the observation, before the pass
		want    []string
	}
	const period = 5 * time.Second
	for name, steps := range map[string][]step{
		"one observation seen twice counts once": {
			{period, []saying{gone("x"), witness}, 0, nil},
			{period, []saying{gone("x"), witness}, period, nil},
			{period, []saying{gone("x"), witness}, 0, []string{"delete x"}},
		},
		"found in between": {
			{period, []saying{gone("x"), witness}, 0, nil},
			{period, []saying{there(provider.InstanceRunning, "x"), witness}, 0, nil},
			{period, []saying{gone("x"), witness}, 0, nil},
			{period, []saying{gone("x"), witness}, 0, []string{"delete x"}},
		},
		"an error in between neither counts nor forgets": {
			{period, []saying{gone("x"), witness}, 0, nil},
			{period, nil, 0, nil},
			{period, []saying{gone("x"), witness}, 0, []string{"delete x"}},
		},
		"a denial of long ago is forgotten": {
			{period, []saying{gone("x"), witness}, 0, nil},
			{10 * time.Minute, []saying{gone("x"), witness}, 0, nil},
			{period, []saying{gone("x"), witness}, 0, []string{"delete x"}},
		},
		"what an incredible answer said counts for nothing": {
			{period, []saying{gone("x", "r")}, 0, nil},
			{period, []saying{gone("x", "r")}, 0, []string{"hold x: EveryInstanceGone"}},
			{period, []saying{gone("x", "r")}, 0, []string{"hold x: EveryInstanceGone"}},
			{period, []saying{gone("x"), witness}, 0, nil},
			{period, []saying{gone("x"), witness}, 0, []string{"delete x"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var remembered guard
			now := today
			for i, step := range steps {
				now = now.Add(step.after)
				var planned plan
				planned, remembered = decide(nodes, saidAt(now.Add(-step.at), step.sayings...), remembered, testSettings(), now)
				if diff := cmp.Diff(step.want, show(planned)); diff != "" {
					t.Errorf("pass %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestLimitHoldsOverTheWindow(t *testing.T) {
	settings := testSettings()
	settings.Limit = Limit{Count: 3}
	running, alive := cluster("r", 10, corev1.ConditionTrue)
	pass := func(remembered guard, now time.Time, lost ...string) (plan, guard) {
		nodes := append([]facts(nil), running...)
		for _, name := range lost {
			nodes = append(nodes, mine(node(name, corev1.ConditionUnknown)))
		}
		confirming := settings
		confirming.Limit = Limit{}
		_, remembered = decide(nodes, saidAt(now.Add(-5*time.Second), gone(lost...), there(provider.InstanceRunning, alive...)), remembered, confirming, now)
		return decide(nodes, saidAt(now, gone(lost...), there(provider.InstanceRunning, alive...)), remembered, settings, now)
	}
	planned, remembered := pass(guard{}, today, "x0", "x1")
	if got := planned.deletions(); got != 2 {
		t.Fatalf("%d deletions, want 2", got)
	}
	planned, remembered = pass(remembered, today.Add(5*time.Minute), "x2", "x3")
	if diff := cmp.Diff([]string{"hold x3: DeletionLimitReached", "delete x2"}, show(planned)); diff != "" {
		t.Errorf("within the window (-want +got):\n%s", diff)
	}
	planned, _ = pass(remembered, today.Add(10*time.Minute), "x3")
	if diff := cmp.Diff([]string{"hold x3: DeletionLimitReached"}, show(planned)); diff != "" {
		t.Errorf("while a deletion that was late may still be in the window (-want +got):\n%s", diff)
	}
	planned, remembered = pass(remembered, today.Add(11*time.Minute), "x3", "x4", "x5")
	if diff := cmp.Diff([]string{"hold x5: DeletionLimitReached", "delete x3", "delete x4"}, show(planned)); diff != "" {
		t.Errorf("when the first two have left the window (-want +got):\n%s", diff)
	}
	remembered = remembered.conclude(action{node: mine(node("x4", corev1.ConditionUnknown))}, today.Add(11*time.Minute), false, false)
	planned, _ = pass(remembered, today.Add(12*time.Minute), "x5")
	if diff := cmp.Diff([]string{"delete x5"}, show(planned)); diff != "" {
		t.Errorf("after a deletion did not happen (-want +got):\n%s", diff)
	}
}

func TestUnknownPast(t *testing.T) {
	settings := testSettings()
	nodes := []facts{
		mine(node("x", corev1.ConditionUnknown)), mine(node("y", corev1.ConditionUnknown, annotated("true"))),
		mine(node("r", corev1.ConditionTrue)),
	}
	pass := func(remembered guard, after time.Duration) (plan, guard) {
		now := today.Add(after)
		return decide(nodes, saidAt(now, gone("x", "y"), there(provider.InstanceRunning, "r")), remembered, settings, now)
	}
	_, remembered := pass(guard{historyUnknown: true}, 0)
	planned, remembered := pass(remembered, time.Second)
	if diff := cmp.Diff([]string{"hold x: DeletionHistoryUnknown", "delete y: acknowledged"}, show(planned)); diff != "" {
		t.Errorf("while the past is unknown (-want +got):\n%s", diff)
	}
	remembered.historyUnknown = false
	planned, _ = pass(remembered, 2*time.Second)
	if diff := cmp.Diff([]string{"delete y: acknowledged", "delete x"}, show(planned)); diff != "" {
		t.Errorf("when it is known again (-want +got):\n%s", diff)
	}
	settings.Limit = Limit{Percent: 100}
	planned, _ = pass(guard{denials: remembered.denials, historyUnknown: true}, 3*time.Second)
	if diff := cmp.Diff([]string{"delete x", "delete y: acknowledged"}, show(planned)); diff != "" {
		t.Errorf("without a limit the past does not matter (-want +got):\n%s", diff)
	}
}

// What was said of a node that was not to be asked for does not count, by whatever way it came.
func TestAnswersThatWereNotSoughtDoNotCount(t *testing.T) {
	nodes := []facts{
		mine(node("young", corev1.ConditionUnknown, initializing, createdAgo(time.Minute))),
		mine(node("joining", "", uninitialized, createdAgo(time.Minute))),
		mine(node("lives", corev1.ConditionFalse, uninitialized, reportedAgo(time.Minute))),
		mine(node("r", corev1.ConditionTrue)),
	}
	planned, _ := rounds(3, nodes, testSettings(), gone("young", "joining", "lives"), there(provider.InstanceRunning, "r"))
	if diff := cmp.Diff([]string(nil), show(planned)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// A node that waits without a provider ID has a machine when its kubelet reports, whatever the cloud said of its name before.
func TestADenialEndsWhenNobodyIsAskedAnyMore(t *testing.T) {
	waits := func(options ...edit) []facts {
		return []facts{mine(node("x", corev1.ConditionUnknown, append(options, uninitialized, annotated("true"))...))}
	}
	silent := waits()
	_, guard := rounds(2, silent, testSettings(), gone("x"))
	for name, test := range map[string]struct {
		nodes []facts
		want  []string
	}{
		"still silent": {silent, []string{"delete x: acknowledged"}},
		"it reports":   {waits(reportedAgo(time.Minute), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }), nil},
	} {
		planned, _ := decide(test.nodes, nil, guard, testSettings(), today.Add(time.Minute))
		if diff := cmp.Diff(test.want, show(planned)); diff != "" {
			t.Errorf("%s: actions (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnAnswerAsOldAsTheWindowSaysNothing(t *testing.T) {
	settings, node := testSettings(), mine(node("x0", corev1.ConditionUnknown))
	for age, want := range map[time.Duration]int{settings.Window: 0, settings.Window - time.Second: 1} {
		said := answers{node.uid: {at: today.Add(-age)}}
		if got := relevant([]facts{node}, said, settings, today); len(got) != want {
			t.Errorf("%d answers of %s ago count, want %d", len(got), age, want)
		}
	}
}
