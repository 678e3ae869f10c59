package announce

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

// TestAddressOfANodeIsNotAnnounced has Services whose status shows addresses of nodes, as the load balancer of k3s leaves it.
func TestAddressOfANodeIsNotAnnounced(t *testing.T) {
	c := newCluster().segment("10.0.0.250/24", "fd00::fa/64")
	c.node(1).node(2, func(node *model.Node) { node.External = []netip.Addr{netip.MustParseAddr("198.51.100.2")} }).node(3)
	c.Others = map[string]model.Node{"other": {Name: "other", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")}}}
	c.service("traefik", false, "10.0.0.1 fd00::1 198.51.100.2 10.0.0.9 10.0.0.200", "n2", "n3").service("web", true, "10.0.0.1", "n2")
	out := Desired(c.Input)
	for addr, node := range map[string]string{"10.0.0.1": "n1", "fd00::1": "n1", "198.51.100.2": "n2", "10.0.0.9": "other"} {
		parsed := netip.MustParseAddr(addr)
		if route, announced := out.Table[netip.PrefixFrom(parsed, parsed.BitLen())]; announced {
			t.Errorf("%s, an address of node %s, is announced: %+v", addr, node, route)
		}
	}
	if got := announced(out, "10.0.0.200"); got == "" {
		t.Error("the address of no node is not announced")
	}
	state := out.Services[key("web")]
	if state.Announced() || state.Reason() != model.NodeAddress || state.Message() != "10.0.0.1 is not announced: it is an address of node n1" {
		t.Errorf("%s: %s", state.Reason(), state.Message())
	}
}

// TestANodeKeepsFewAddresses has a kubelet write many addresses into the status of its Node.
func TestANodeKeepsFewAddresses(t *testing.T) {
	c := newCluster().node(1)
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("192.0.2.%d", i))
		c.service(fmt.Sprint("s", i), false, all[i], "n1")
	}
	c.node(2, at(all...))
	out, gone := Desired(c.Input), 0
	for _, addr := range all {
		if announced(out, addr) == "" {
			gone++
		}
	}
	if gone != maxOwned {
		t.Errorf("%d addresses of Services are not announced", gone)
	}
}

// TestOtherNodesAreFollowed has a node that is no machine of ours come, become one, and go.
func TestOtherNodesAreFollowed(t *testing.T) {
	ours := false
	c, err := watch(informers.NewSharedInformerFactory(fake.NewClientset(), 0), func(*corev1.Node) bool { return ours }, TakenOn)
	if err != nil {
		t.Fatal(err)
	}
	counts := func() string {
		var in Input
		c.fill(&in)
		return fmt.Sprint(len(in.Nodes), " ", len(in.Others))
	}
	node := nodeObject("a", "10.0.0.1")
	c.setNode(node)
	if got := counts(); got != "0 1" {
		t.Errorf("a node of others: %s", got)
	}
	ours = true
	c.setNode(node)
	if got := counts(); got != "1 0" {
		t.Errorf("it became ours: %s", got)
	}
	labeled := node.DeepCopy()
	labeled.ObjectMeta = metav1.ObjectMeta{Name: "a", Labels: map[string]string{"some": "label"}}
	ours = false
	c.setNode(labeled)
	if got := counts(); got != "0 1" {
		t.Errorf("it became another's: %s", got)
	}
	c.deleteNode(labeled)
	if got := counts(); got != "0 0" {
		t.Errorf("it has gone: %s", got)
	}
}
