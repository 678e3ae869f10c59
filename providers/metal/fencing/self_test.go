package fencing

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// One thing that a replica and a node have in common is enough: a replica must not turn off its own machine.
func TestSelf(t *testing.T) {
	const uuid, swapped = "00112233-4455-6677-8899-aabbccddeeff", "33221100-5544-7766-8899-aabbccddeeff"
	self := Self{
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
		node := nodeOf("other", "unknownReady")
		test.change(node)
		if got := self.Is(node); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if (Self{}).Is(nodeOf("", "")) {
		t.Error("a replica that knows nothing of itself is taken for a node")
	}
}

func TestObserveSelf(t *testing.T) {
	t.Setenv("NODE_NAME", "my-node")
	self, err := ObserveSelf()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil || !slices.Contains(self.Names, host) || !slices.Contains(self.Names, "my-node") {
		t.Errorf("%+v, %v", self, err)
	}
	for _, address := range self.Addresses {
		if address.IsLoopback() {
			t.Errorf("%s is the address of every machine", address)
		}
	}
}
