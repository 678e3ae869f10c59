package ccm

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// written is a sink that counts events by their type.
type written struct {
	record.EventSink
	mu    sync.Mutex
	types map[string]int
}

func (w *written) Create(event *corev1.Event) (*corev1.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.types[event.Type]++
	return event, nil
}

func (w *written) count(eventtype string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.types[eventtype]
}

// A thousand nodes that were initialized tell so in their own time, and keep neither each other waiting nor a warning.
func TestGoodNewsIsPacedAndWarningsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &written{types: map[string]int{}}
		events := newEvents(t.Context(), sink)
		recorder := events.recorder("cloud-node-controller")
		const nodes = 900
		for i := range nodes {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))}}
			recorder.Event(node, corev1.EventTypeNormal, "Synced", "initialized")
			synctest.Wait() // client-go drops what is recorded faster than it is taken
		}
		recorder.Eventf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "x"}}, corev1.EventTypeWarning, "Failed", "no")
		synctest.Wait()
		if got := sink.count(corev1.EventTypeWarning); got != 1 {
			t.Errorf("%d warnings are written, want the one that there is", got)
		}
		if got := sink.count(corev1.EventTypeNormal); got != newsBurst {
			t.Errorf("%d events are written at once, want %d", got, newsBurst)
		}
		time.Sleep((nodes - newsBurst) / newsRate * time.Second)
		synctest.Wait()
		if got := sink.count(corev1.EventTypeNormal); got != nodes {
			t.Errorf("%d events are written in the end, want %d", got, nodes)
		}
		events.shutdown()
	})
}

func TestEventsThatWaitAreWrittenInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &written{types: map[string]int{}}
		events := newEvents(t.Context(), sink)
		recorder := events.recorder("x")
		for i := range newsBurst + 10 {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))}}
			recorder.Event(node, corev1.EventTypeNormal, "Synced", "initialized")
			synctest.Wait()
		}
		start := time.Now()
		events.shutdown()
		if took := time.Since(start); took != 0 {
			t.Errorf("the end took %s", took)
		}
		// client-go may drop the last few at its own end.
		if synctest.Wait(); sink.count(corev1.EventTypeNormal) <= newsBurst {
			t.Errorf("%d events are written, want the waiting ones too", sink.count(corev1.EventTypeNormal))
		}
	}) // which fails if a goroutine is left
}
