package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// A mistyped annotation of ours is told on the leader, once, and asks the cloud nothing.
func TestAMistypedAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		annotated := func(key, value string) *corev1.Node {
			node := &corev1.Node{}
			node.Name, node.UID, node.Spec.ProviderID = "a", "uid-a", "sim://a"
			node.Annotations = map[string]string{key: value}
			return node
		}
		change := func(node *corev1.Node) {
			r.watcher.handler().Update(t.Context(), event.TypedUpdateEvent[*corev1.Node]{ObjectOld: annotated("", ""), ObjectNew: node}, nil)
		}
		recorded := r.watcher.recorder.(*record.FakeRecorder).Events
		change(annotated("mooring.dev/ignroe", "true"))
		if len(recorded) != 0 {
			t.Errorf("a standby says %q", <-recorded)
		}
		r.watcher.leads.Store(true)
		change(annotated("metal.mooring.dev/drain", "true"))
		change(annotated("mooring.dev/ignroe", "true"))
		change(annotated("mooring.dev/ignroe", "yes"))
		if len(recorded) != 1 {
			t.Fatalf("%d events, want one", len(recorded))
		}
		if said := <-recorded; !strings.HasPrefix(said, "Warning InvalidAnnotation ") || !strings.Contains(said, "did you mean mooring.dev/ignore?") {
			t.Errorf("event %q", said)
		}
		time.Sleep(time.Hour)
		change(annotated("mooring.dev/ignroe", "true"))
		if len(recorded) != 1 {
			t.Errorf("%d events an hour later, want another", len(recorded))
		}
	})
}
