package nodelifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mooring-ccm/mooring/internal/instances"
)

// faults are what becomes of the writes to one node forever: a webhook that is down, one that hangs, and one that says no.
var faults = map[string]func(context.Context) error{
	"is down": func(context.Context) error { return apierrors.NewInternalError(errors.New("failed calling webhook")) },
	"hangs":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	"refuses": func(context.Context) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "dead-0-stuck", errors.New("admission webhook denied the request"))
	},
}

// A node whose deletion fails forever does not use up the limit: all other dead nodes are deleted, one or three in 11 minutes, and that
// one is tried again now and then.
func TestADeletionThatFailsForEverLeavesTheLimitToOthers(t *testing.T) {
	for name, fault := range faults {
		for _, test := range []struct {
			limit Limit
			dead  []string
			most  time.Duration
		}{
			{Limit{Count: 1}, []string{"dead-0-stuck", "dead-1", "dead-2"}, 35 * time.Minute},
			{Limit{Percent: 25}, []string{"dead-0-stuck", "dead-1", "dead-2", "dead-3", "dead-4"}, 13 * time.Minute},
			{Limit{Percent: 25}, []string{"dead-0-stuck", "dead-1-stuck", "dead-2-stuck", "dead-3", "dead-4"}, 24 * time.Minute},
		} {
			t.Run(name+" with limit "+test.limit.String(), func(t *testing.T) {
				settings := DefaultSettings()
				settings.Limit = test.limit
				playWith(t, settings, &moody{}, append(test.dead, healthy...), func(s *scene) {
					s.cluster.breaks(fault)
					s.turn(corev1.ConditionUnknown, test.dead...)
					time.Sleep(test.most)
					for _, node := range test.dead {
						if !strings.Contains(node, "stuck") && s.cluster.get(node) != nil {
							t.Errorf("%s is there after %s", node, test.most)
						}
					}
					for _, node := range healthy {
						if s.cluster.get(node) == nil {
							t.Errorf("%s was deleted", node)
						}
					}
					before := s.cluster.tried()
					time.Sleep(20 * time.Minute)
					if more := s.cluster.tried() - before; more < 5 || more > 3*21 {
						t.Errorf("%d further tries within 20 minutes, want at most one a minute and node, and some", more)
					}
					s.cluster.breaks(nil)
					if s.takes(test.dead[0]) == 2*time.Minute {
						t.Errorf("%s still exists although nothing is wrong now", test.dead[0])
					}
				})
			})
		}
	}
}

// Writes that hang for some nodes forever hold up no other node, neither when they begin to nor afterwards.
func TestANodeDoesNotWaitForTheWritesOfOthers(t *testing.T) {
	for _, name := range []string{"dead", "off"} {
		undisturbed := longest(t, name, healthy, nil, 0)
		for _, stuck := range [][]string{{"off-stuck"}, {"dead-stuck"}, {"off-stuck", "off-stuck-2", "dead-stuck", "dead-stuck-2"}} {
			for _, since := range []time.Duration{0, 50 * time.Second, 10 * time.Minute} {
				took := longestBesideStuck(t, name, stuck, since)
				t.Logf("%s takes %s beside %v since %s, and %s alone", name, took, stuck, since, undisturbed)
				if took > 2*undisturbed+instances.AnswerWait {
					t.Errorf("%s takes %s beside %v since %s, want at most twice %s and a wait", name, took, stuck, since, undisturbed)
				}
			}
		}
	}
}

// longestBesideStuck returns how long a node takes at most, over all moments between two passes at which it may go silent. For each stuck node two
// writes hang: the write of the condition that it shows, and another one.
func longestBesideStuck(t *testing.T, name string, stuck []string, since time.Duration) (most time.Duration) {
	t.Helper()
	for phase := range 10 {
		play(t, 0, append(append([]string{name}, healthy...), stuck...), func(s *scene) {
			offset := time.Duration(phase)*DefaultPeriod/10 + DefaultPeriod/100
			s.cluster.breaks(faults["hangs"])
			for _, other := range stuck {
				s.cluster.change(other, showing(HoldLimitReached))
			}
			s.turn(corev1.ConditionUnknown, stuck...)
			time.Sleep(since + offset)
			s.turn(corev1.ConditionUnknown, name)
			most = max(most, s.takes(name))
		})
	}
	return most
}
