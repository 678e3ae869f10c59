package nodelifecycle

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/nodeview"
)

// A node that stays as it is is asked for less and less often, whatever the cloud offers; what happens to it and to others is seen as
// soon as ever.
func TestANodeThatStaysOffCostsLittle(t *testing.T) {
	for name, test := range map[string]struct {
		pages int
		most  map[string]int // calls within an hour
	}{
		"asked for one by one":                    {0, map[string]int{"off": 2 * 60}},
		"a listing of one page":                   {1, map[string]int{"off": 0, "a page": 60}},
		"a listing costs more than two questions": {50, map[string]int{"off": 2 * 60, "a page": 50}},
	} {
		t.Run(name, func(t *testing.T) {
			settings := DefaultSettings()
			settings.Limit, settings.MinDenialTime = Limit{Percent: 100}, 0
			playWith(t, settings, &moody{pages: test.pages}, append([]string{"off", "dead-1"}, healthy...), func(s *scene) {
				s.turn(corev1.ConditionUnknown, "off")
				if took := s.takes("off"); took > DefaultPeriod+time.Duration(test.pages)*callTime {
					t.Errorf("the node is tainted after %s", took)
				}
				time.Sleep(time.Hour)
				for what, most := range test.most {
					if calls := s.cloud.count(what); calls > most || most > 0 && calls < most/5 {
						t.Errorf("%d calls within an hour for %s, want at most %d, and some", calls, what, most)
					}
				}
				s.turn(corev1.ConditionUnknown, "dead-1")
				if took := s.takes("dead-1"); took > 2*(DefaultPeriod+2*time.Duration(test.pages)*callTime) {
					t.Errorf("beside it a node is deleted after %s", took)
				}
				before := s.cloud.count("off") + s.cloud.count("a page")
				s.informer.Update(s.cluster.change("off", func(n *corev1.Node) {
					n.Status.Conditions[0].Status = corev1.ConditionFalse
					n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now())
				}))
				time.Sleep(DefaultPeriod + shortPause)
				if s.cloud.count("off")+s.cloud.count("a page") == before {
					t.Error("it is not asked for when its kubelet has reported")
				}
			})
		})
	}
}

// When a thousand machines fail at once each node that is gone is asked for twice, and each that is off once: two passes are enough,
// although the calls for one of them take longer than a pass waits for a single answer. No machine that is off is asked for again soon.
func TestAThousandSilentNodesTakeTwoPasses(t *testing.T) {
	const each = 500
	var names []string
	for i := range each {
		names = append(names, fmt.Sprintf("dead-%d", i), fmt.Sprintf("off-%d", i))
	}
	settings := DefaultSettings()
	settings.MinDenialTime, settings.Limit = 0, Limit{Percent: 100}
	playWith(t, settings, &moody{queue: true}, names, func(s *scene) {
		time.Sleep(DefaultPeriod / 100) // at the moment when a pass begins chance would say which of them it sees
		s.turn(corev1.ConditionUnknown, names...)
		begun := time.Now()
		for _, name := range names {
			s.takes(name)
		}
		if took := time.Since(begun); took > 2*(shortPause+shortPause) {
			t.Errorf("the last node is gone or tainted after %s", took)
		}
		time.Sleep(each*admission.MaxGroupPause/nodeview.ManyOff - 2*DefaultPeriod)
		calls := 0
		for _, name := range names {
			calls += s.cloud.count(name)
		}
		if calls != 4*each {
			t.Errorf("%d calls, want %d: two for each node", calls, 4*each)
		}
	})
}

// Many nodes that are off cost a listing, and not questions for each.
func TestManyNodesThatStayOffAreListed(t *testing.T) {
	names := healthy
	for i := range 30 {
		names = append(names[:len(names):len(names)], fmt.Sprintf("off-%d", i))
	}
	settings := DefaultSettings()
	settings.MinDenialTime, settings.Limit = 0, Limit{Percent: 100}
	playWith(t, settings, &moody{pages: 50}, names, func(s *scene) {
		s.turn(corev1.ConditionUnknown, names[len(healthy):]...)
		time.Sleep(time.Hour)
		for _, name := range names {
			if calls := s.cloud.count(name); calls > 0 {
				t.Errorf("%d calls for %s", calls, name)
			}
		}
		if calls := s.cloud.count("a page"); calls > 50*60 {
			t.Errorf("%d pages within an hour", calls)
		}
	})
}
