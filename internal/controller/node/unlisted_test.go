package node

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// Nodes join together, and their listing fails. None of them waits for longer than a listing may take to be tried again, whatever the cloud
// asks for; and one listing serves them all.
func TestNodesWhoseListingFailedShareTheNext(t *testing.T) {
	for name, refusal := range map[string]error{
		"an absurd Retry-After": provider.Throttled(24*time.Hour, errors.New("429")), "an outage": errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const joined = 50
				var nodes []*corev1.Node
				for i := range joined + 1 {
					nodes = append(nodes, newNode(withTaints(cloudTaint), func(n *corev1.Node) {
						n.Name, n.UID = fmt.Sprintf("node%d", i), types.UID(fmt.Sprintf("uid-%d", i))
					}))
				}
				s := newSmall(interceptor.Funcs{}, nodes...)
				for _, node := range nodes {
					s.cloud.show = append(s.cloud.show, instance("sim://"+node.Name, node.Name, "a", internalIP("10.0.0.1")))
				}
				s.cloud.fails = refusal
				for range 12 {
					time.Sleep(30 * time.Second)
					for _, node := range nodes[:joined] {
						if _, result := s.pass(t, node.Name); result.RequeueAfter <= 0 || result.RequeueAfter > 30*time.Second {
							t.Fatalf("%s is tried again after %s, want half a minute at most", node.Name, result.RequeueAfter)
						}
					}
				}
				s.cloud.fails = nil
				time.Sleep(2 * time.Second) // a failed listing answers for a second
				s.pass(t, nodes[joined].Name)
				listings := s.cloud.listings
				for _, node := range nodes[:joined] {
					if node, _ := s.pass(t, node.Name); ownership.Uninitialized(node) {
						t.Errorf("%s still waits", node.Name)
					}
				}
				if more := s.cloud.listings - listings; more > 0 {
					t.Errorf("%d further listings for nodes that one answers for", more)
				}
			})
		})
	}
}
