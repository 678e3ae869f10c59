package nodelifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/provider"
)

func TestAlive(t *testing.T) {
	const no, unknown, yes = corev1.ConditionFalse, corev1.ConditionUnknown, corev1.ConditionTrue
	ago := func(age time.Duration) time.Time { return today.Add(-age) }
	for name, test := range map[string]struct {
		node      *corev1.Node
		heartbeat heartbeat
		want      bool
	}{
		"ready":                                       {node("a", yes, reportedAgo(time.Hour)), heartbeat{}, true},
		"its silence was noticed":                     {node("a", unknown, reportedAgo(time.Second)), heartbeat{}, false},
		"it has never reported":                       {node("a", ""), heartbeat{}, false},
		"it reports that it is not ready":             {node("a", no, reportedAgo(time.Second)), heartbeat{}, true},
		"its clock is ahead":                          {node("a", no, reportedAgo(-time.Hour)), heartbeat{at: today}, true},
		"a report of long ago, seen now":              {node("a", no, reportedAgo(reportInterval*3/2)), heartbeat{at: today}, false},
		"seen to change, by a clock that is behind":   {node("a", no, reportedAgo(time.Hour)), heartbeat{at: ago(5 * time.Minute), changed: true}, true},
		"not seen to change for longer than it may":   {node("a", no, reportedAgo(time.Second)), heartbeat{at: ago(reportInterval)}, false},
		"it changed once, and is silent since":        {node("a", no, reportedAgo(time.Second)), heartbeat{at: ago(reportInterval), changed: true}, false},
		"not seen to change, but not for long either": {node("a", no, reportedAgo(reportInterval*3/2)), heartbeat{at: ago(reportInterval - 1)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			facts := mine(test.node)
			facts.heartbeat = test.heartbeat
			if got := facts.alive(today); got != test.want {
				t.Errorf("alive = %t, want %t", got, test.want)
			}
		})
	}
}

// reporting makes a node say that it is not ready, for all time that a test lasts.
func reporting(n *corev1.Node) {
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(today.Add(time.Hour))
}

func TestKubeletsThatReportBearWitness(t *testing.T) {
	running, alive := cluster("r", 6, corev1.ConditionTrue)
	upgraded, names := cluster("u", 100, corev1.ConditionFalse, reporting)
	lost := mine(node("x", corev1.ConditionUnknown))
	confirmed := mine(node("c", corev1.ConditionFalse, reporting, annotated("true")))
	leaving := mine(node("l", corev1.ConditionFalse, reporting, withTaint(taintKarpenter, "", corev1.TaintEffectNoSchedule)))
	lives := there(provider.InstanceRunning, append(names[33:], alive...)...)
	checkGuard(t, map[string]guardCase{
		"all nodes of an upgrade, and a list that lacks a third": {
			nodes: upgraded, rounds: 8, settings: halfMinute, sayings: []saying{gone(names[:33]...), lives},
			want: held(names[:33], HoldKubeletReports), held: map[HoldReason]int{HoldKubeletReports: 33},
		},
		"the same beside a node that is silent": {
			nodes: with(upgraded, lost), rounds: 8, settings: halfMinute, sayings: []saying{gone(append(names[:33:33], "x")...), lives},
			want: append(held(names[:33], HoldKubeletReports), "hold x: RunningNodesDenied"), held: map[HoldReason]int{HoldKubeletReports: 33, HoldRunningNodesDenied: 1},
		},
		"one of them, beside a node that is silent": {
			nodes: with(running, upgraded[0], lost), rounds: 7, settings: halfMinute, sayings: []saying{gone("u0", "x"), lives},
			want: []string{"hold u0: KubeletReports", "delete x"}, held: map[HoldReason]int{HoldKubeletReports: 1},
		},
		"not held at once: it may be shutting down": {
			nodes: with(running, upgraded[0]), rounds: 6, settings: halfMinute, sayings: []saying{gone("u0"), lives},
		},
		"announced, and still there": {
			nodes: with(running, leaving), rounds: 6, settings: halfMinute, sayings: []saying{gone("l"), lives},
		},
		"confirmed by an operator": {
			nodes: with(running, confirmed), rounds: 2, settings: halfMinute, sayings: []saying{gone("c"), lives}, want: []string{"delete c: acknowledged"},
		},
	})
}

func halfMinute(s *Settings) { s.MinDenialTime = 30 * time.Second }

// held shows the actions that hold nodes.
func held(names []string, reason HoldReason) []string {
	shown := make([]string, 0, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		shown = append(shown, "hold "+name+": "+string(reason))
	}
	return shown
}

func TestDenialsSpanATime(t *testing.T) {
	running, alive := cluster("r", 6, corev1.ConditionTrue)
	all := with(running, mine(node("gone", corev1.ConditionUnknown)),
		mine(node("announced", corev1.ConditionUnknown, withTaint(taintKarpenter, "", corev1.TaintEffectNoSchedule))),
		mine(node("confirmed", corev1.ConditionUnknown, annotated("true"))))
	lives := there(provider.InstanceRunning, alive...)
	settings := testSettings()
	halfMinute(&settings)
	var planned plan
	var remembered guard
	for i, want := range [][]string{
		nil, {"delete announced: announced", "delete confirmed: acknowledged"}, nil, nil, nil, nil, {"delete gone"},
	} {
		now := today.Add(time.Duration(i) * 5 * time.Second)
		planned, remembered = decide(all, saidAt(now, gone("gone", "announced", "confirmed"), lives), remembered, settings, now)
		if diff := cmp.Diff(want, show(planned)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", now.Sub(today), diff)
		}
		if i == 1 {
			all = all[:len(all)-2]
		}
		if end := today.Add(30 * time.Second); i >= 1 && i < 6 && !planned.due["uid-gone"].Equal(end) {
			t.Errorf("after %s the node is to be asked for at %s, want %s", now.Sub(today), planned.due["uid-gone"], end)
		}
	}
}

// A kubelet that says for hours that its node is not ready keeps it, whatever the cloud says, and its silence gives it up: both as
// kube-controller-manager notices it, and without that. Meanwhile a node that is silent goes, and others are let alone.
func TestAKubeletThatReportsKeepsItsNode(t *testing.T) {
	settings := DefaultSettings()
	settings.Limit = Limit{Percent: 100}
	names := append([]string{"dead-1", "dead-2", "dead-3"}, healthy...)
	playWith(t, settings, &moody{}, names, func(s *scene) {
		report := func(names ...string) {
			for _, name := range names {
				s.informer.Update(s.cluster.change(name, func(n *corev1.Node) {
					n.Status.Conditions[0].Status = corev1.ConditionFalse
					n.Status.Conditions[0].LastHeartbeatTime.Time = time.Now().Add(-12 * time.Minute) // its clock is behind
				}))
			}
		}
		s.turn(corev1.ConditionUnknown, "dead-3")
		for minute := range 120 {
			if minute%5 == 0 {
				report("dead-1", "dead-2")
			}
			if minute == 1 && s.cluster.get("dead-3") != nil {
				t.Error("the node that is silent is there after a minute")
			}
			time.Sleep(time.Minute)
		}
		for _, name := range append([]string{"dead-1", "dead-2"}, healthy...) {
			if s.cluster.get(name) == nil {
				t.Errorf("%s was deleted", name)
			}
		}
		s.turn(corev1.ConditionUnknown, "dead-1")
		if took := s.takes("dead-1"); took < settings.MinDenialTime || took > settings.MinDenialTime+DefaultPeriod+shortPause {
			t.Errorf("a node whose silence was noticed is deleted after %s, want %s and a pass", took, settings.MinDenialTime)
		}
		if s.cluster.get("dead-2") == nil {
			t.Error("dead-2 was deleted before its silence could be noticed")
		}
		time.Sleep(reportInterval + time.Minute)
		if s.cluster.get("dead-2") != nil {
			t.Error("dead-2 still exists after its silence")
		}
		for _, name := range healthy {
			if s.cluster.get(name) == nil {
				t.Errorf("%s was deleted", name)
			}
		}
	})
}

// Of the same nodes as above, in the size of the finding, none is deleted by the controller itself.
func TestAnUpgradeOfTheNetworkPluginCostsNoNode(t *testing.T) {
	var names []string
	for i := range 100 {
		prefix := "r"
		if i < 33 {
			prefix = "dead"
		}
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	settings := DefaultSettings()
	settings.Limit = Limit{Percent: 100}
	playWith(t, settings, &moody{}, names, func(s *scene) {
		for range 60 {
			for _, name := range names {
				s.informer.Update(s.cluster.change(name, func(n *corev1.Node) {
					n.Status.Conditions[0].Status = corev1.ConditionFalse
					n.Status.Conditions[0].LastHeartbeatTime.Time = time.Now()
				}))
			}
			time.Sleep(time.Minute)
		}
		for _, name := range names {
			if s.cluster.get(name) == nil {
				t.Errorf("%s was deleted", name)
			}
		}
	})
}
