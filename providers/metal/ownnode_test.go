package metal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// TestOwnNode follows the labels of the node of a replica, and says so with each change of a node's labels.
func TestOwnNode(t *testing.T) {
	node := func(name, rack string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}
	}
	client := fake.NewClientset(node("own", "a"), node("other", "b"))
	factory := informers.NewSharedInformerFactory(client, 0)
	own := &ownNode{nodes: factory.Core().V1().Nodes(), observe: func() (self.Replica, error) { return self.Replica{Node: "own"}, nil }}
	var changes atomic.Int64
	if err := own.onChange(func() { changes.Add(1) }); err != nil {
		t.Fatal(err)
	}
	if labels, err := own.labels(); labels != nil || err != nil {
		t.Errorf("before nodes are listed: %v, %v", labels, err)
	}
	factory.Start(t.Context().Done())
	expect := func(rack string, least int64) {
		t.Helper()
		poll.Until(t, "the labels are those of rack "+rack, func(context.Context) error {
			labels, err := own.labels()
			if err != nil || labels["rack"] != rack || changes.Load() < least {
				return fmt.Errorf("%v, %w after %d changes", labels, err, changes.Load())
			}
			return nil
		})
	}
	expect("a", 2)
	nodes := client.CoreV1().Nodes()
	beat := node("own", "a")
	beat.Annotations = map[string]string{"beat": "1"}
	for _, next := range []*corev1.Node{beat, node("own", "b")} {
		if _, err := nodes.Update(t.Context(), next, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect("b", 3)
	if got := changes.Load(); got != 3 {
		t.Errorf("%d changes, want 3: a heartbeat is none", got)
	}
	if err := nodes.Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the node is gone", func(context.Context) error {
		if labels, err := own.labels(); err == nil || changes.Load() != 4 {
			return fmt.Errorf("%v after %d changes", labels, changes.Load())
		}
		return nil
	})
	own.observe = func() (self.Replica, error) { return self.Replica{}, errors.New("no name") }
	if labels, err := own.labels(); err == nil {
		t.Errorf("a machine that cannot be looked at: %v", labels)
	}
}
