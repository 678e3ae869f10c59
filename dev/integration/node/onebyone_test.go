package node_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// A plugin that can neither list nor watch is not asked for nodes to which nothing happens, however often they report; and once for a node
// that reboots, or whose addresses another writer has changed. No turn of a node by its age comes while the test lasts.
func TestAPlainPluginIsAskedForNodesToWhichSomethingHappens(t *testing.T) {
	const pool, interval = "one-by-one", 1000 * time.Hour
	var zone atomic.Value
	zone.Store("z")
	plugin := newPlain("plain", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		instance := instanceOf(n)
		instance.Zone = zone.Load().(string)
		return instance, nil
	})
	o := options{Cloud: plugin, Pool: pool, Refresh: interval, Full: 100 * interval}
	first := start(t, o)
	const rests, reboots = pool + "-rests", pool + "-reboots"
	for _, name := range []string{rests, reboots} {
		join(t, inPool(pool, nodeagent.Options{Name: name, ProviderID: "plain://" + name}))
		waitInitialized(t, name)
	}
	calls := func(wantRests, wantReboots int, what string) {
		t.Helper()
		settle(t, pool, rests, reboots)
		if got := plugin.counts(); got[rests] != wantRests || got[reboots] != wantReboots {
			t.Errorf("%s: calls of the plugin %v, want %d and %d", what, got, wantRests, wantReboots)
		}
	}
	calls(1, 1, "nothing happens")

	zone.Store("z2")
	reports(t, reboots, func(n *corev1.Node) { n.Status.NodeInfo.BootID = "second" })
	waitFor(t, reboots, "is in the new zone", hasLabel(corev1.LabelTopologyZone, "z2"))
	calls(1, 2, "a reboot")

	wrong := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.9.9.9"}}
	reports(t, reboots, func(n *corev1.Node) { n.Status.Addresses = wrong })
	waitFor(t, reboots, "has its address again", func(n *corev1.Node) error {
		if n.Status.Addresses[0] == wrong[0] {
			return fmt.Errorf("it has %v", n.Status.Addresses)
		}
		return nil
	})
	change(t, reboots, label(corev1.LabelTopologyZone, "mine")) // which needs no answer
	calls(1, 3, "the addresses are changed, and a label")
	for reason, want := range map[string]float64{"rebooted": 1, "changed": 1, "age": 0, "first": 0, "retry": 0} {
		if got := first.Metric(t, "mooring_node_refresh_lookups_total", "reason", reason); got != want {
			t.Errorf("%v lookups because of %q, want %v", got, reason, want)
		}
	}
	first.Stop()

	start(t, o)
	waitFor(t, rests, "is in its zone", hasLabel(corev1.LabelTopologyZone, "z2"))
	poll.Until(t, "the new leader has looked up both nodes", func(context.Context) error {
		if got := plugin.counts(); got[rests] < 2 || got[reboots] < 4 {
			return fmt.Errorf("calls of the plugin %v", got)
		}
		return nil
	})
	calls(2, 4, "another leader")
}

// settle has nodes report until the manager has seen it: a node that joins after that is initialized after that.
func settle(t *testing.T, pool string, names ...string) {
	t.Helper()
	for range 5 {
		for _, name := range names {
			reports(t, name, func(*corev1.Node) {})
		}
	}
	last := pool + "-" + utilrand.String(5)
	join(t, inPool(pool, nodeagent.Options{Name: last, ProviderID: "plain://" + last}))
	waitInitialized(t, last)
}

// reports has a node report that it is ready, as its kubelet does.
func reports(t *testing.T, name string, edit func(*corev1.Node)) {
	t.Helper()
	poll.Until(t, "node "+name+" reports", func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: node.CreationTimestamp},
		}
		edit(node)
		_, err = admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}
