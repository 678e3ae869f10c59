package pool

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// A pool whose addresses nodes have says so, and which node has most.
func TestARefusalNamesTheNode(t *testing.T) {
	s := NewState(compiledPools(t, []config.Pool{{Name: "public", Addresses: []string{"192.0.2.0/30"}}}))
	owners := map[netip.Addr]string{}
	for i, owner := range []string{"node worker-7", "node worker-7", "node a", "node worker-7"} {
		owners[netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})] = owner
	}
	s.Reserve(owners)
	_, err := Allocate(s, Request{Holder: holderNamed("web"), Families: []corev1.IPFamily{v4}})
	if err == nil || !strings.Contains(err.Error(), "all 4 of pool public, 4 of them by nodes (node worker-7 says that it has 3), are taken") {
		t.Errorf("%v", err)
	}
}

// The addresses of nodes that are in a pool are left out. No Service gets one, by itself, by asking or by sharing. A Service that has one
// gives it up and is told so. When a node has gone its address is free again.
func TestReservedAddresses(t *testing.T) {
	pools, err := New([]config.Pool{{Name: "p", Addresses: []string{"192.0.2.0/30"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(pools)
	request := func(name, asked string) Request {
		r := Request{Families: []corev1.IPFamily{corev1.IPv4Protocol}}
		r.UID, r.Service = types.UID(name), types.NamespacedName{Namespace: "default", Name: name}
		if asked != "" {
			r.Asked = []netip.Addr{netip.MustParseAddr(asked)}
		}
		return r
	}
	got := func(r Request) string {
		grant, err := Allocate(s, r)
		if err != nil {
			return err.Error()
		}
		text := grant.Addresses[0].String()
		for _, note := range grant.Notes {
			text += " " + string(note.Reason) + ": " + note.Message
		}
		return text
	}
	expect := func(what, got, want string) {
		t.Helper()
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	owner := request("owner", "")
	owner.SharingKey = "key"
	s.Set(owner.Holder, []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil)
	nodes := map[netip.Addr]string{
		netip.MustParseAddr("192.0.2.0"): "node n0", netip.MustParseAddr("192.0.2.1"): "node n1", netip.MustParseAddr("198.51.100.1"): "node n2",
	}
	for range 2 { // what is said again changes nothing
		s.Reserve(nodes)
	}
	expect("by itself", got(request("a", "")), "192.0.2.2")
	expect("by asking", got(request("a", "192.0.2.0")), "Conflict: 192.0.2.0 is the address of node n0")
	sharing := request("b", "")
	sharing.SharingKey = "key"
	expect("by sharing", got(sharing), "192.0.2.2")
	owner.Held = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	expect("who has it", got(owner), "192.0.2.2 AddressOfNode: The Service gives up 192.0.2.1, which is the address of node n1")
	if reserved := s.Reserved(); len(reserved) != 2 {
		t.Errorf("in pools: %v", reserved)
	}
	if usage := s.Usage(); usage[0].Size != 3 || usage[0].Taken != 1 {
		t.Errorf("usage %+v", usage)
	}
	s = s.WithPools(pools)
	expect("with other pools", got(request("a", "")), "192.0.2.2")
	s.Remove("owner") // its address is the node's alone now
	expect("after its Service has gone", got(request("a", "192.0.2.1")), "Conflict: 192.0.2.1 is the address of node n1")
	s.Reserve(nil)
	expect("after the nodes have gone", got(request("a", "")), "192.0.2.0")
	expect("after the nodes have gone", got(request("a", "192.0.2.1")), "192.0.2.1")
	if usage := s.Usage(); usage[0].Size != 4 || usage[0].Taken != 0 {
		t.Errorf("usage %+v", usage)
	}
}
