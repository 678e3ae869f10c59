package instances

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/internal/cloud"
)

// TestASharedCallIsAsUrgentAsTheMostUrgentOfThoseWhoWait also when that one comes while the call is under way.
func TestASharedCallIsAsUrgentAsTheMostUrgentOfThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var call context.Context
		goOn := make(chan struct{})
		question := &singleflight[int]{}
		ask := func(priority cloud.Priority) {
			go func() {
				_, _ = question.get(cloud.WithPriority(t.Context(), priority), time.Time{}, func(ctx context.Context) (int, error) {
					call = ctx
					<-goOn
					return 0, nil
				})
			}()
			synctest.Wait()
		}
		for _, step := range []struct{ asks, want cloud.Priority }{
			{cloud.PriorityRefresh, cloud.PriorityRefresh},
			{cloud.PriorityNewNode, cloud.PriorityNewNode},
			{cloud.PriorityUpdate, cloud.PriorityNewNode},
		} {
			ask(step.asks)
			if got := cloud.PriorityOf(call); got != step.want {
				t.Errorf("after a %s has joined, the call's priority is %s, want %s", step.asks, got, step.want)
			}
		}
		close(goOn)
		synctest.Wait()
	})
}
