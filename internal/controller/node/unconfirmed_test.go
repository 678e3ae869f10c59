package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// refreshAll has the cloud asked as the refresh asks it, and makes passes over the nodes that differ.
func (s *small) refreshAll(t *testing.T, names ...string) map[string]*corev1.Node {
	t.Helper()
	time.Sleep(time.Minute)
	nodes := map[string]*corev1.Node{}
	var all []*corev1.Node
	for _, name := range names {
		nodes[name] = s.node(t, name)
		all = append(all, nodes[name])
	}
	var differ []string
	s.inventory.LookupEach(t.Context(), all, 0, func(node *corev1.Node, observation instances.Observation, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if s.differs(node, observation) {
			differ = append(differ, node.Name)
		}
	})
	for _, name := range differ {
		nodes[name], _ = s.pass(t, name)
	}
	return nodes
}

// The cloud shows one node's host name only, and another node's IP has changed. The first keeps its IP until a later answer says
// the same; all else of it, and the other node, are as the cloud says at once.
func TestAnAnswerWithoutIPsIsToldAndConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []*corev1.Node
		for _, name := range []string{"node0", "node1"} {
			nodes = append(nodes, newNode(withID("sim://"+name), withAddresses(internalIP("10.0.0.1")), func(n *corev1.Node) {
				n.Name, n.UID = name, types.UID(name)
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			}))
		}
		s := newSmall(interceptor.Funcs{}, nodes...)
		show := func(zone string, addresses ...corev1.NodeAddress) {
			s.cloud.show = []provider.Instance{
				instance("sim://node0", "node0", zone, addresses...), instance("sim://node1", "node1", zone, internalIP("10.0.0.2")),
			}
		}
		check := func(when, zone string, ip bool, warned bool) {
			t.Helper()
			after := s.refreshAll(t, "node0", "node1")
			for name, node := range after {
				if got := node.Labels[corev1.LabelTopologyZone]; got != zone {
					t.Errorf("%s: %s is in zone %q, want %q", when, name, got, zone)
				}
			}
			if got := after["node1"].Status.Addresses; len(got) != 1 || got[0] != internalIP("10.0.0.2") {
				t.Errorf("%s: the other node has the addresses %v", when, got)
			}
			if got := after["node0"].Status.Addresses; hasIP(got) != ip {
				t.Errorf("%s: the node has the addresses %v", when, got)
			}
			got := strings.Join(s.eventsSince(), "\n")
			if strings.Contains(got, "Warning AddressesUnconfirmed") != warned || strings.Count(got, "Warning") > 1 {
				t.Errorf("%s: the nodes got the events %q", when, got)
			}
			if !warned {
				return
			}
			if node, _ := s.pass(t, "node0"); !hasIP(node.Status.Addresses) { // somebody has changed the node, which brings no new answer
				t.Errorf("%s: by the same answer again the node has the addresses %v", when, node.Status.Addresses)
			}
		}
		show("a", internalIP("10.0.0.1"))
		check("at first", "a", true, false)
		check("as it was", "a", true, false)
		show("a", hostName("node0"))
		check("the host name only", "a", true, true)
		show("a", internalIP("10.0.0.1"))
		check("the IP again", "a", true, false)
		time.Sleep(time.Hour)
		show("b", hostName("node0"))
		check("the host name only, an hour later, and another zone", "b", true, true)
		check("a second time", "b", false, false)
	})
}
