package route

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
)

// late has routes from the third question on.
type late struct {
	memoryRoutes
	asked []time.Time
}

func (l *late) Routes() (cloudprovider.Routes, bool) {
	l.asked = append(l.asked, time.Now())
	return l, len(l.asked) > 2
}

// A provider that has no routes at first is asked again, and the Lease has an event.
func TestAProviderIsAskedForItsRoutesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud, recorder := &late{}, record.NewFakeRecorder(10)
		c := &Controller{cloud: cloud, recorder: recorder, log: logr.Discard(), lease: func(context.Context) *corev1.ObjectReference {
			return &corev1.ObjectReference{Kind: "Lease", Name: "leader"}
		}}
		began := time.Now()
		if routes, supported := c.awaitRoutes(t.Context()); !supported || routes == nil || time.Since(began) != 3*time.Second {
			t.Errorf("supported %t after %s, want true after 3s", supported, time.Since(began))
		}
		if len(recorder.Events) != 1 {
			t.Fatalf("%d events, want one", len(recorder.Events))
		}
		if got := <-recorder.Events; !strings.Contains(got, ReasonRoutesNotSupported) {
			t.Errorf("event %q", got)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cloud.asked = nil
		time.AfterFunc(time.Second/2, func() { cancel(errors.New("shutdown")) })
		if _, supported := c.awaitRoutes(ctx); supported {
			t.Error("supported although the process ends")
		}
	})
}
