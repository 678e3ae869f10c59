package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// slowWrite is a cluster with an initialized node whose addresses are being written by a refresh while something happens.
func slowWrite(t *testing.T, happens func(s *small, r *refresher)) (s *small) {
	t.Helper()
	var r *refresher
	once := false
	s = newSmall(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if !once {
				once = true
				happens(s, r)
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	}, newNode(withID("sim://0"), withAddresses(internalIP("10.0.0.1"))))
	r = &refresher{reconciler: s.reconciler, interval: DefaultStatusUpdateFrequency, log: logr.Discard()}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	_ = s.queue.Capture(t.Context(), q)
	s.cloud.show = []provider.Instance{instance("sim://0", "node0", "a", internalIP("10.0.0.2"))}
	s.round(t, r)
	return s
}

// round has the nodes refreshed once.
func (s *small) round(t *testing.T, r *refresher) {
	var passes sync.WaitGroup
	r.pass(t.Context(), &passes)
	passes.Wait()
}

// A user asks for the initialization of a node while a refresh writes its addresses.
func TestATaintThatComesDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before *corev1.Node
		s := slowWrite(t, func(s *small, _ *refresher) {
			before = s.node(t, "node0")
			after := before.DeepCopy()
			after.Spec.Taints = []corev1.Taint{cloudTaint}
			if err := s.Update(t.Context(), after); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		})
		after, _ := s.pass(t, "node0")
		watcher{reconciler: s.reconciler}.changed(s.queue.Queue(), before, after)
		for range 10 {
			after, _ = s.pass(t, "node0")
			time.Sleep(time.Minute)
		}
		if ownership.Uninitialized(after) {
			t.Error("the node still waits for its initialization")
		}
	})
}

// The cloud says something else while the pass writes what it said before.
func TestAnAnswerThatComesDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowWrite(t, func(s *small, r *refresher) {
			time.Sleep(time.Second)
			s.cloud.show = []provider.Instance{instance("sim://0", "node0", "a", internalIP("10.0.0.3"))}
			s.round(t, r)
		})
		s.pass(t, "node0")
		if after, _ := s.pass(t, "node0"); after.Status.Addresses[0].Address != "10.0.0.3" {
			t.Errorf("the node has %v", after.Status.Addresses)
		}
	})
}

// A node is foreign when its turn comes, and ours again soon after.
func TestATurnThatComesWhileTheNodeIsForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.add("n", 0)
		r.lead()
		time.Sleep(15 * time.Second) // the first round is over
		r.change("n", withAnnotation(ownership.AnnotationIgnore, "true"))
		time.Sleep(6 * time.Minute)
		r.change("n", withAnnotation(ownership.AnnotationIgnore, "false"))
		if got := r.during("n", 48*time.Hour); got == 0 {
			t.Error("no lookup within two days")
		}
	})
}
