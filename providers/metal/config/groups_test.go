package config

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"
)

func routers(change ...func(*BGP)) *BGP {
	section := &BGP{Peers: []BGPPeer{
		{Name: "c", Address: "10.0.0.3"}, {Name: "b", Address: "10.0.0.20"}, {Name: "a", Address: "10.0.0.1"},
	}}
	for _, apply := range change {
		apply(section)
	}
	return section
}

func TestGroups(t *testing.T) {
	prefixes := func(texts ...string) (parsed []netip.Prefix) {
		for _, text := range texts {
			parsed = append(parsed, netip.MustParsePrefix(text))
		}
		return parsed
	}
	marked := BGPAttributes{Communities: []string{"1:1"}, LocalPreference: ptr.To(uint32(7))}
	for name, test := range map[string]struct {
		section *BGP
		want    []PeerGroup
	}{
		"nothing differs": {routers(), nil},
		"attributes of a router alone are a policy": {routers(func(b *BGP) { b.Peers[0].BGPAttributes = marked }), nil},
		"subnets of the section": {routers(func(b *BGP) { b.NextHopSubnets = []string{"10.1.0.0/16"} }), []PeerGroup{
			{Peers: []string{"c", "b", "a"}, Subnets: prefixes("10.1.0.0/16")},
		}},
		"advertisements without peers": {routers(func(b *BGP) { b.Advertisements = []BGPAdvertisement{{}, {}} }), []PeerGroup{
			{Peers: []string{"c", "b", "a"}, Advertisements: []int{0, 1}},
		}},
		"a router that an advertisement names": {routers(func(b *BGP) {
			b.Advertisements = []BGPAdvertisement{{Peers: []string{"b"}}, {}}
			b.Peers[1].BGPAttributes = marked
		}), []PeerGroup{
			{Peers: []string{"c", "a"}, Advertisements: []int{1}},
			{Name: "10.0.0.20", Peers: []string{"b"}, Advertisements: []int{0, 1}, Attributes: marked},
		}},
		"routers that no advertisement names": {routers(func(b *BGP) {
			b.Advertisements = []BGPAdvertisement{{Peers: []string{"a", "c"}}}
		}), []PeerGroup{
			{Peers: []string{"b"}, Advertisements: []int{}},
			{Name: "10.0.0.1", Peers: []string{"c", "a"}, Advertisements: []int{0}},
		}},
		"named by the lowest address, by number and not by letters": {routers(func(b *BGP) {
			b.NextHopSubnets = []string{"10.1.0.0/16"}
			b.Peers[0].NextHopSubnets, b.Peers[1].NextHopSubnets = []string{"10.2.0.0/16"}, []string{"10.2.0.0/16"}
		}), []PeerGroup{
			{Peers: []string{"a"}, Subnets: prefixes("10.1.0.0/16")},
			{Name: "10.0.0.3", Peers: []string{"c", "b"}, Subnets: prefixes("10.2.0.0/16")},
		}},
		"routers that hash by the source address": {routers(func(b *BGP) {
			b.Peers[0].HashesBySource, b.Peers[1].HashesBySource = true, true
		}), []PeerGroup{{Peers: []string{"a"}}, {Name: "10.0.0.3", Peers: []string{"c", "b"}, HashesBySource: true}}},
		"routers with one address": {routers(func(b *BGP) {
			b.Peers[1].Address = "10.0.0.3"
			b.Advertisements = []BGPAdvertisement{{Peers: []string{"c"}}, {Peers: []string{"b"}}}
		}), []PeerGroup{
			{Peers: []string{"a"}, Advertisements: []int{}},
			{Name: "10.0.0.3/b", Peers: []string{"b"}, Advertisements: []int{1}},
			{Name: "10.0.0.3/c", Peers: []string{"c"}, Advertisements: []int{0}},
		}},
		"a default gateway": {routers(func(b *BGP) {
			b.Peers[1] = BGPPeer{Name: "gateway", DefaultGateway: "IPv4", HashesBySource: true}
		}), []PeerGroup{{Peers: []string{"c", "a"}}, {Name: "gateway", Peers: []string{"gateway"}, HashesBySource: true}}},
		"other attributes, another group": {routers(func(b *BGP) {
			b.Advertisements = []BGPAdvertisement{{Peers: []string{"a", "b", "c"}}}
			b.Peers[1].BGPAttributes = marked
		}), []PeerGroup{
			{Name: "10.0.0.1", Peers: []string{"c", "a"}, Advertisements: []int{0}},
			{Name: "10.0.0.20", Peers: []string{"b"}, Advertisements: []int{0}, Attributes: marked},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.section.Groups(), cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroupContains(t *testing.T) {
	group := PeerGroup{Subnets: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.3.0.0/16")}}
	for addr, want := range map[string]bool{"10.1.0.1": true, "10.2.0.1": false, "10.3.9.9": true, "2001:db8::1": true} {
		if got := group.Contains(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %t", addr, got)
		}
	}
	if everything := (&PeerGroup{}); !everything.Contains(netip.MustParseAddr("10.2.0.1")) {
		t.Error("a group without subnets refuses an address")
	}
}

func TestPathAttributes(t *testing.T) {
	section := &BGP{
		BGPAttributes: BGPAttributes{Communities: []string{"9:9"}},
		Pools:         []BGPPool{{Name: "public", BGPAttributes: BGPAttributes{LocalPreference: ptr.To(uint32(120))}}},
		Advertisements: []BGPAdvertisement{
			{}, {BGPAttributes: BGPAttributes{Communities: []string{"2:2", "1:1"}}},
			{BGPAttributes: BGPAttributes{LocalPreference: ptr.To(uint32(0))}},
			{BGPAttributes: BGPAttributes{Communities: []string{"1:1", "3:3"}, LocalPreference: ptr.To(uint32(300))}},
			{BGPAttributes: BGPAttributes{Communities: []string{}}},
		},
	}
	marked := BGPAttributes{Communities: []string{"0:1"}, LocalPreference: ptr.To(uint32(1))}
	for _, test := range []struct {
		advertisements []int
		of             BGPAttributes
		communities    []string
		preference     uint32
	}{
		{nil, BGPAttributes{}, []string{"9:9"}, 120},
		{[]int{0}, BGPAttributes{}, []string{"9:9"}, 120},
		{[]int{1}, BGPAttributes{}, []string{"1:1", "2:2"}, 120},
		{[]int{2}, BGPAttributes{}, []string{"9:9"}, 0},
		{[]int{1, 3}, BGPAttributes{}, []string{"1:1", "2:2", "3:3"}, 300},
		{[]int{3, 1}, BGPAttributes{}, []string{"1:1", "2:2", "3:3"}, 300},
		{[]int{4}, BGPAttributes{}, nil, 120},
		{[]int{2, 3}, marked, []string{"0:1", "1:1", "3:3", "9:9"}, 1},
	} {
		got := section.PathAttributes(&PeerGroup{Attributes: test.of}, "public", test.advertisements)
		if !slices.Equal(got.Communities, test.communities) || *got.LocalPreference != test.preference {
			t.Errorf("advertisements %v: %v, %d", test.advertisements, got.Communities, *got.LocalPreference)
		}
	}
	if !slices.Equal(section.Advertisements[1].Communities, []string{"2:2", "1:1"}) {
		t.Error("the section was changed")
	}
}
