package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// fixedNodes are the nodes of a cluster.
type fixedNodes struct {
	client.Reader
	nodes []corev1.Node
}

func (f fixedNodes) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.NodeList).Items = append([]corev1.Node{}, f.nodes...)
	return nil
}

// A change in the cloud is noticed within one interval, whatever other nodes suffer; and what is bad forever is asked for once per
// interval at most, and never twice at a time.
func TestARefreshDoesNotWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		plugin, zone := newPlainCloud(), "a"
		plugin.hangs["hangs-1"], plugin.hangs["hangs-2"] = true, true
		var nodes []corev1.Node
		for _, name := range []string{"n", "fails", "hangs-1", "hangs-2"} {
			plugin.answer[name] = func() (*cloudprovider.InstanceMetadata, error) {
				if name != "n" {
					return nil, errors.New("no answer")
				}
				return &cloudprovider.InstanceMetadata{ProviderID: "sim://n", Zone: zone}, nil
			}
			nodes = append(nodes, *newNode(withID("sim://"+name), func(n *corev1.Node) {
				n.Name, n.UID = name, types.UID("uid-"+name)
				n.Labels = map[string]string{corev1.LabelTopologyZone: "a", corev1.LabelFailureDomainBetaZone: "a"}
			}))
		}
		r := &refresher{
			interval: interval,
			reconciler: newReconciler(Options{
				Inventory: instances.New(instances.Options{Cloud: plugin}), Owners: ownership.Rules{ProviderName: "sim"},
			}),
			log: logr.Discard(),
		}
		r.reader = fixedNodes{nodes: nodes}
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		_ = r.queue.Capture(ctx, q)
		running.Go(func() { r.run(ctx) })
		time.Sleep(time.Hour + interval/2)
		if got := q.Len(); got != 0 {
			t.Fatalf("%d nodes are to be changed, want none", got)
		}
		plugin.mu.Lock()
		calls := fmt.Sprint(plugin.calls)
		if plugin.calls["n"] != 361 || plugin.calls["fails"] != 361 || plugin.calls["hangs-1"] < 50 || plugin.calls["hangs-1"] > 61 {
			t.Errorf("%s calls within an hour, want one per interval, and one at a time", calls)
		}
		zone = "b"
		plugin.mu.Unlock()
		start := time.Now()
		for q.Len() == 0 && time.Since(start) < 10*interval {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(start); took > interval {
			t.Errorf("it took %s to notice a change, want at most the interval of %s", took, interval)
		}
		cancel()
		running.Wait()
	})
}
