package nodelifecycle

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

func TestOwnWritesAreRememberedUntilTheCacheShowsThem(t *testing.T) {
	at := func(version string) *corev1.Node {
		n := node("a", corev1.ConditionUnknown)
		n.ResourceVersion = version
		return n
	}
	did := func(kind actionKind, outcome kit.WriteOutcome, version string) result {
		return result{action: action{kind: kind, node: mine(at("5"))}, outcome: outcome, resourceVersion: version}
	}
	tests := []struct {
		name string
		done []result
		node *corev1.Node
		want bool
	}{
		{"never written", nil, at("5"), false},
		{"older than the write", []result{did(addTaint, kit.Written, "9")}, at("8"), true},
		{"the write itself", []result{did(addTaint, kit.Written, "9")}, at("9"), false},
		{"younger, and with more digits", []result{did(addTaint, kit.Written, "9")}, at("10"), false},
		{"deleted", []result{did(deleteNode, kit.Written, "")}, at("5"), true},
		{"refused", []result{did(deleteNode, kit.Refused, "")}, at("5"), false},
		{"outdated", []result{did(deleteNode, kit.Outdated, "")}, at("5"), false},
		{"only an event", []result{did(markHeld, kit.Written, "")}, at("5"), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := nodeState{}
			for _, done := range test.done {
				m.note(done, today)
			}
			stale := func(now time.Time) bool {
				f := mine(test.node)
				m.apply(&f, now)
				return f.excluded
			}
			if got := stale(today); got != test.want {
				t.Errorf("stale = %t, want %t", got, test.want)
			}
			if stale(today.Add(kit.MaxCacheLag)) {
				t.Error("a copy that is older forever is left alone forever")
			}
			m.forget(map[types.UID]bool{})
			if stale(today) {
				t.Error("a node that is there no more is remembered")
			}
		})
	}
}

func TestAFailureIsNewsOnce(t *testing.T) {
	m := nodeState{}
	failed := func(kind actionKind) result {
		return result{action: action{kind: kind, node: mine(node("a", corev1.ConditionUnknown))}, outcome: kit.Refused, err: errors.New("forbidden")}
	}
	fine := failed(deleteNode)
	fine.outcome, fine.err = kit.Written, nil
	for i, step := range []struct {
		done result
		news bool
	}{
		{failed(addTaint), true}, {failed(addTaint), false}, {failed(deleteNode), true}, {failed(deleteNode), false}, {fine, false}, {failed(deleteNode), true},
	} {
		if got := m.note(step.done, today); got != step.news {
			t.Errorf("step %d: news = %t, want %t", i, got, step.news)
		}
	}
}
