package self

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// One thing that a replica and a node have in common is enough: a replica must not turn off its own machine.
func TestSelf(t *testing.T) {
	const uuid, swapped = "00112233-4455-6677-8899-aabbccddeeff", "33221100-5544-7766-8899-aabbccddeeff"
	own := Replica{
		Names: []string{"n1", "rack-1"}, SystemUUID: uuid,
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.244.1.7"), netip.MustParseAddr("fd00::1")},
	}
	for name, test := range map[string]struct {
		change func(*v1.Node)
		want   bool
	}{
		"nothing": {func(*v1.Node) {}, false},
		"name":    {func(n *v1.Node) { n.Name = "n1" }, true},
		"label":   {func(n *v1.Node) { n.Labels = map[string]string{v1.LabelHostname: "rack-1"} }, true},
		"address": {func(n *v1.Node) {
			n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}
		}, true},
		"IPv6 address": {func(n *v1.Node) {
			n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "fd00:0::1"}}
		}, true},
		"another address": {func(n *v1.Node) {
			n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.2"}}
		}, false},
		"pod CIDR":     {func(n *v1.Node) { n.Spec.PodCIDRs = []string{"fd00:1::/64", "10.244.1.0/24"} }, true},
		"another CIDR": {func(n *v1.Node) { n.Spec.PodCIDRs = []string{"10.244.2.0/24"} }, false},
		"system UUID":  {func(n *v1.Node) { n.Status.NodeInfo.SystemUUID = swapped }, true},
		"another UUID": {func(n *v1.Node) { n.Status.NodeInfo.SystemUUID = "1" + uuid[1:] }, false},
	} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		test.change(node)
		if got := own.Is(node); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if (Replica{}).Is(&v1.Node{}) {
		t.Error("a replica that knows nothing of itself is taken for a node")
	}
}

func TestObserve(t *testing.T) {
	t.Setenv("NODE_NAME", "my-node")
	own, err := Observe()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil || !slices.Contains(own.Names, host) || !slices.Contains(own.Names, "my-node") {
		t.Errorf("%+v, %v", own, err)
	}
	for _, address := range own.Addresses {
		if address.IsLoopback() {
			t.Errorf("%s is the address of every machine", address)
		}
	}
}

// TestFind has what $NODE_NAME says go before everything else, and takes no node of several.
func TestFind(t *testing.T) {
	node := func(name, address string) *v1.Node {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}
		return node
	}
	nodes := []*v1.Node{node("a", "10.0.0.1"), node("b", "10.0.0.2"), node("c", "10.0.0.2")}
	own := func(name string, addresses ...string) Replica {
		r := Replica{Node: name}
		for _, address := range addresses {
			r.Addresses = append(r.Addresses, netip.MustParseAddr(address))
		}
		return r
	}
	for name, test := range map[string]struct {
		own  Replica
		want string
	}{
		"by its address":                       {own("", "10.0.0.1"), "a"},
		"by its name, whatever has an address": {own("b", "10.0.0.1"), "b"},
		"a name that no node has":              {own("d", "10.0.0.1"), "there is no node d, which NODE_NAME names"},
		"two that may be it":                   {own("", "10.0.0.2"), "the nodes b and c both"},
		"none":                                 {own("", "10.0.0.3"), "set NODE_NAME"},
	} {
		got := ""
		found, err := test.own.Find(nodes)
		if err != nil {
			got = err.Error()
		} else {
			got = found.Name
		}
		if !strings.Contains(got, test.want) || (err == nil) != (len(test.want) == 1) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
