package kit

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var start = time.Date(2015, 1, 1, 12, 0, 0, 0, time.UTC)

func TestAnObjectIsToldOnceAnEventInterval(t *testing.T) {
	var limiter EventLimiter
	for _, step := range []struct {
		object types.UID
		reason string
		after  time.Duration
		want   bool
	}{
		{"a", "CloudError", 0, true},
		{"a", "CloudError", time.Second, false},
		{"a", "WriteFailed", time.Second, true},       // another reason is news
		{"a", "CloudError", time.Minute, false},       // and does not make the first one news again
		{"b", "CloudError", time.Minute, true},        // neither does another object
		{"a", "CloudError", EventInterval - 1, false}, // refusals do not put the next telling off
		{"a", "CloudError", EventInterval, true},
		{"a", "CloudError", EventInterval + time.Minute, false},
		{"b", "CloudError", EventInterval + time.Minute, true},
	} {
		if got := limiter.Allow(step.object, step.reason, start.Add(step.after)); got != step.want {
			t.Errorf("after %s, %s to %s: allowed %t, want %t", step.after, step.reason, step.object, got, step.want)
		}
	}
}

func TestObjectsThatAreGoneTakeNoRoom(t *testing.T) {
	var limiter EventLimiter
	for i := range 100 {
		limiter.Allow(types.UID(fmt.Sprint(i)), "CloudError", start.Add(time.Duration(i)*time.Second))
	}
	limiter.Allow("new", "CloudError", start.Add(2*EventInterval))
	if got := len(limiter.last); got != 1 {
		t.Errorf("%d are remembered, want the new one", got)
	}
}
