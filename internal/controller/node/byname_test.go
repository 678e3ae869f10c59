package node

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-ccm/mooring/provider"
)

// A machine is replaced by another one under its name, and a listing from before knows the old one. The new node has no provider ID, and
// what it is given cannot be changed. A node that brings its provider ID needs no listing of its own meanwhile.
func TestANewNodeIsNotTakenForTheMachineBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replaced := newNode(withTaints(cloudTaint))
		known := newNode(withTaints(cloudTaint), withID("sim://1"), func(n *corev1.Node) { n.Name, n.UID = "node1", "uid-1" })
		s := newSmall(interceptor.Funcs{}, replaced, known)
		s.cloud.takes = time.Second
		other := instance("sim://1", "node1", "a", internalIP("10.0.0.9"))
		s.cloud.show = []provider.Instance{instance("sim://old", "node0", "a", internalIP("10.0.0.1")), other}
		if _, err := s.inventory.Lookup(t.Context(), known, 0); err != nil {
			t.Fatal(err)
		}
		s.cloud.show = []provider.Instance{instance("sim://new", "node0", "a", internalIP("10.0.0.2")), other}
		time.Sleep(25 * time.Second) // the new machine boots

		s.state.changed(known, time.Now())
		if node, _ := s.pass(t, "node1"); len(node.Spec.Taints) > 0 || s.cloud.listings != 1 {
			t.Errorf("the node that has a provider ID has the taints %v after %d listings, want none after 1", node.Spec.Taints, s.cloud.listings)
		}
		s.state.changed(replaced, time.Now())
		node, _ := s.pass(t, "node0")
		if node.Spec.ProviderID != "sim://new" || node.Status.Addresses[0] != internalIP("10.0.0.2") {
			t.Errorf("the new node has the provider ID %q and the addresses %v", node.Spec.ProviderID, node.Status.Addresses)
		}
		if s.cloud.listings != 2 {
			t.Errorf("%d listings, want 2", s.cloud.listings)
		}
	})
}

// A thousand nodes without provider IDs join within ten seconds, and a change of each is seen when it has been there for a while. A listing
// serves all that appeared before it began.
func TestNodesThatJoinByNameShareListings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, within, takes = 1000, 10 * time.Second, 500 * time.Millisecond
		s := newSmall(interceptor.Funcs{})
		s.cloud.takes = takes
		turns := make(chan struct{}, DefaultWorkers)
		var joining sync.WaitGroup
		var mu sync.Mutex
		var longest time.Duration
		for i := range nodes {
			name := fmt.Sprintf("node-%04d", i)
			s.cloud.show = append(s.cloud.show, instance("sim://"+name, name, "a", internalIP("10.0.0.1")))
		}
		for i := range nodes {
			node := newNode(withTaints(cloudTaint), func(n *corev1.Node) { n.Name = fmt.Sprintf("node-%04d", i); n.UID = types.UID(n.Name) })
			joining.Go(func() {
				appeared := time.Now()
				s.state.changed(node, appeared)
				turns <- struct{}{}
				defer func() { <-turns }()
				observation, err := s.lookUp(t.Context(), node, s.state.get(node.UID))
				if err != nil || observation.Answered != "sim://"+node.Name || observation.At.Before(appeared) {
					t.Errorf("%s was answered %q, %v, from %s before it appeared", node.Name, observation.Answered, err, appeared.Sub(observation.At))
				}
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(appeared))
			})
			time.Sleep(within / nodes)
		}
		joining.Wait()
		t.Logf("%d listings, the longest wait was %s", s.cloud.listings, longest)
		if most := 6; s.cloud.listings > most {
			t.Errorf("%d listings for %d nodes within %s, want at most %d", s.cloud.listings, nodes, within, most)
		}
	})
}
