package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// brokenCloud is a plugin whose every answer is another error: some with a request ID, some that the instance is unknown.
type brokenCloud struct {
	cloudprovider.Interface
	requests atomic.Int64
}

func (*brokenCloud) ProviderName() string { return "sim" }

func (c *brokenCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return brokenInstances{cloud: c}, true
}

type brokenInstances struct {
	cloudprovider.InstancesV2
	cloud *brokenCloud
}

func (i brokenInstances) InstanceMetadata(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if request := i.cloud.requests.Add(1); request%2 == 0 {
		return nil, fmt.Errorf("internal error, request ID %d", request)
	}
	return nil, cloudprovider.InstanceNotFound
}

// waitingNodes are nodes that all wait for their initialization.
type waitingNodes struct{ client.Reader }

func (waitingNodes) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*corev1.Node) = *newNode(withTaints(cloudTaint), func(n *corev1.Node) { n.Name, n.UID = key.Name, types.UID("uid-"+key.Name) })
	return nil
}

// eventSink counts what reaches the API server, by node and reason.
type eventSink struct {
	mu     sync.Mutex
	writes map[[2]string]int
	total  int
}

func (s *eventSink) count(event *corev1.Event) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total++
	s.writes[[2]string{event.InvolvedObject.Name, event.Reason}]++
	return event, nil
}

func (s *eventSink) Create(event *corev1.Event) (*corev1.Event, error) { return s.count(event) }
func (s *eventSink) Update(event *corev1.Event) (*corev1.Event, error) { return s.count(event) }
func (s *eventSink) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.count(event)
}

// An outage that goes on for an hour: 300 nodes fail again and again, with two reasons in turn and never twice the same message.
func TestAnOutageIsNoFloodOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, lasts, interval = 300, time.Hour, 10 * time.Minute
		sink := &eventSink{writes: map[[2]string]int{}}
		broadcaster := record.NewBroadcaster(record.WithContext(t.Context()))
		broadcaster.StartRecordingToSink(sink)
		cloud := &brokenCloud{}
		r := newReconciler(Options{
			Recorder:  broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name}),
			Inventory: instances.New(instances.Options{Cloud: cloud}), Owners: ownership.Rules{ProviderName: "sim"},
		})
		r.reader = waitingNodes{}
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		var attempts atomic.Int64
		var working sync.WaitGroup
		for i := range nodes {
			request := reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprintf("node-%03d", i)}}
			working.Go(func() {
				for ctx.Err() == nil {
					result, err := r.Reconcile(ctx, request)
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					attempts.Add(1)
					select {
					case <-time.After(result.RequeueAfter):
					case <-ctx.Done():
					}
				}
			})
		}
		working.Wait()
		synctest.Wait()
		broadcaster.Shutdown()

		t.Logf("%d nodes, %d attempts, %d writes of events", nodes, attempts.Load(), sink.total)
		if attempts.Load() < 20*nodes {
			t.Errorf("%d attempts, want many for each of %d nodes", attempts.Load(), nodes)
		}
		if len(sink.writes) < nodes {
			t.Errorf("%d nodes and reasons got events, want every node", len(sink.writes))
		}
		for about, writes := range sink.writes {
			if most := int(lasts/interval) + 1; writes > most {
				t.Errorf("node %s got %[3]d events for %[2]s in %[4]s, want at most %[5]d", about[0], about[1], writes, lasts, most)
			}
		}
	})
}
