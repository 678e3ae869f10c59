package instances

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
)

// TestASharedCallIsAsUrgentAsTheMostUrgentOfThoseWhoWait also when that one comes while the call is under way.
func TestASharedCallIsAsUrgentAsTheMostUrgentOfThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var call context.Context
		goOn := make(chan struct{})
		question := &singleflight[int]{}
		ask := func(priority admission.Priority) {
			go func() {
				_, _ = question.get(admission.WithPriority(t.Context(), priority), time.Time{}, func(ctx context.Context) (int, error) {
					call = ctx
					<-goOn
					return 0, nil
				})
			}()
			synctest.Wait()
		}
		for _, step := range []struct{ asks, want admission.Priority }{
			{admission.PriorityRefresh, admission.PriorityRefresh},
			{admission.PriorityNewNode, admission.PriorityNewNode},
			{admission.PriorityUpdate, admission.PriorityNewNode},
		} {
			ask(step.asks)
			if got := admission.PriorityOf(call); got != step.want {
				t.Errorf("after a %s has joined, the call's priority is %s, want %s", step.asks, got, step.want)
			}
		}
		close(goOn)
		synctest.Wait()
	})
}
