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
)

// faults are what becomes of the writes to one node for ever: a webhook that is down, one that hangs, and one that says no.
var faults = map[string]func(context.Context) error{
	"is down": func(context.Context) error { return apierrors.NewInternalError(errors.New("failed calling webhook")) },
	"hangs":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	"refuses": func(context.Context) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "dead-0-stuck", errors.New("admission webhook denied the request"))
	},
}

// A node whose deletion fails for ever does not use up the limit: all other dead nodes are deleted, one or three in 11 minutes, and that
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
						t.Errorf("%s is there although nothing is wrong any more", test.dead[0])
					}
				})
			})
		}
	}
}
