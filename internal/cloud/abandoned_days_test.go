package cloud

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// An object whose reads hang for a month is asked for less and less often, and never given up. It uses up a part of the hung calls that its
// group may have, so that another object, one of whose reads never returned, is served when it is well.
func TestAnObjectThatHangsForAMonthLeavesRoom(t *testing.T) {
	inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
		m.set(m.hangs, "hangs", "once")
		_ = m.node(t.Context(), "once")
		for began := time.Now(); time.Since(began) < 30*24*time.Hour; time.Sleep(10 * time.Minute) {
			_ = m.node(t.Context(), "hangs")
		}
		abandoned := testutil.ToFloat64(m.cloud.(*decorated).calls.metrics.abandoned.WithLabelValues(GroupInstances))
		if abandoned < manyAbandoned+30/2 || abandoned > maxOverdue/4 {
			t.Errorf("%v calls are abandoned after a month, want some every day and at most %d", abandoned, maxOverdue/4)
		}
		m.set(well, "hangs", "once")
		if err := m.node(t.Context(), "once"); err != nil {
			t.Errorf("another object that is well again: %v", err)
		}
		time.Sleep(rareAgain)
		if err := m.node(t.Context(), "hangs"); err != nil {
			t.Errorf("the object itself, a day after it is well again: %v", err)
		}
	})
}
