package kit

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newQueue returns the queue that controller-runtime gives a Controller. Its shutdown decides whether a manager ends within its grace period. The
// queue of controller-runtime v0.24 could wait forever (https://github.com/kubernetes-sigs/controller-runtime/issues/3538).
func newQueue() priorityqueue.PriorityQueue[reconcile.Request] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second)
	return priorityqueue.New("test", func(options *priorityqueue.Opts[reconcile.Request]) { options.RateLimiter = limiter })
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

// Workers that are busy when their queue is shut down come to an end, and so does all that the queue has started.
func TestShutDownWhileBusy(t *testing.T) {
	defer goleak.VerifyNone(t)
	for round := range 200 {
		q := newQueue()
		var workers sync.WaitGroup
		busy := make(chan struct{}, 1)
		for number := range 8 {
			workers.Go(func() {
				for count := 0; ; count++ {
					q.Add(request(fmt.Sprintf("%d-%d", number, count)))
					item, _, shutdown := q.GetWithPriority()
					if shutdown {
						return
					}
					q.Done(item)
					if count > 3 {
						select {
						case busy <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		<-busy
		q.ShutDown()
		ended := make(chan struct{})
		go func() { workers.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("round %d: workers wait at a queue that was shut down", round)
		}
	}
}

// TestShutDownWhileIdle: idle workers leave too. After the shutdown no worker gets an item, not even one that was in the queue.
func TestShutDownWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		got := make(chan bool)
		for range 5 {
			go func() {
				_, shutdown := q.Get()
				got <- shutdown
			}()
		}
		synctest.Wait() // until all of them wait for something to do
		if q.ShuttingDown() {
			t.Error("it says that it is shutting down before it is to")
		}
		q.ShutDown()
		for range 5 {
			if !<-got {
				t.Error("a worker was given something to do by the shutdown")
			}
		}
		q.Add(request("late"))
		if _, _, shutdown := q.GetWithPriority(); !shutdown || !q.ShuttingDown() {
			t.Error("work goes on after the shutdown")
		}
	})
}

// An item of a higher priority is handed out first.
func TestPriorities(t *testing.T) {
	defer goleak.VerifyNone(t)
	q := newQueue()
	defer q.ShutDown()
	for name, priority := range map[string]int{"low": 1, "high": 3, "middle": 2} {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request(name))
	}
	for _, want := range []string{"high", "middle", "low"} {
		if item, _, shutdown := q.GetWithPriority(); item != request(want) || shutdown {
			t.Errorf("got %v, shutdown %t, want %s", item, shutdown, want)
		}
	}
}
