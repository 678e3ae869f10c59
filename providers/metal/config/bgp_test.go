package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
)

// readBGP reads a section, sets its defaults and says what is wrong with it.
func readBGP(t *testing.T, text string) (BGP, []string) {
	t.Helper()
	var section BGP
	errs := strict.YAML([]byte(text), &section)
	section.setDefaults()
	var wrong []string
	for _, err := range strict.Merge(errs, section.validate(field.NewPath("bgp"))) {
		wrong = append(wrong, err.Error())
	}
	return section, wrong
}

func TestBGPDefaults(t *testing.T) {
	got, wrong := readBGP(t, `
asn: 64512
peers:
- address: 10.0.0.1
  asn: 64513
  bfd: {}
`)
	if len(wrong) > 0 {
		t.Errorf("a section with the least that it needs is wrong: %q", wrong)
	}
	interval := metav1.Duration{Duration: 300 * time.Millisecond}
	want := BGP{
		ASN: 64512, ListenPort: -1, Mode: ActiveActive,
		Peers: []BGPPeer{{
			Name: "10.0.0.1", Address: "10.0.0.1", ASN: 64513, Port: 179,
			HoldTime: metav1.Duration{Duration: 9 * time.Second}, KeepaliveTime: metav1.Duration{Duration: 3 * time.Second},
			ConnectRetry: metav1.Duration{Duration: 5 * time.Second}, Families: []AddressFamily{IPv4, IPv6},
			BFD: &BFD{TransmitInterval: interval, ReceiveInterval: interval, Multiplier: 3},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	restart, _ := readBGP(t, "{asn: 1, mode: GracefulRestart, peers: [{address: '2001:db8::1', asn: 1, holdTime: 90s}]}")
	if restart.RestartTime.Duration != 2*time.Minute || restart.Peers[0].KeepaliveTime.Duration != 30*time.Second {
		t.Errorf("restart time %s and keepalive time %s", restart.RestartTime.Duration, restart.Peers[0].KeepaliveTime.Duration)
	}
}

func TestBGPWholeSection(t *testing.T) {
	if _, wrong := readBGP(t, `
asn: 4200000000
routerID: 10.0.0.10
listenPort: 1179
mode: GracefulRestart
restartTime: 60s
communities: ["64512:1", "no-export"]
localPreference: 200
pools:
- name: public
  communities: ["64512:1:2"]
peers:
- name: rack-1
  address: 2001:db8::1
  asn: 64513
  port: 1790
  passwordFile: /etc/mooring/rack-1
  holdTime: 30s
  keepaliveTime: 10s
  connectRetry: 10s
  ebgpMultihop: 3
  sourceAddress: 2001:db8::2
  families: [IPv6]
  communities: [blackhole]
  localPreference: 50
`); len(wrong) > 0 {
		t.Errorf("wrong: %q", wrong)
	}
}

func TestDynamicASN(t *testing.T) {
	section, wrong := readBGP(t, "{asn: 7, peers: [{address: 10.0.0.1, dynamicASN: Internal}, {address: 10.0.0.2, dynamicASN: External}]}")
	if len(wrong) > 0 || section.Peers[0].ASN != 7 || section.Peers[1].ASN != 0 {
		t.Errorf("%+v, wrong: %q", section.Peers, wrong)
	}
}

// The gateway of each rack may have the same address, and an autonomous system of its own.
func TestRoutersOfOneAddress(t *testing.T) {
	const peer = "{name: %s, address: 10.0.0.1, asn: 7, nodeSelectors: [%s]}"
	for name, test := range map[string]struct{ a, b, want string }{
		"other nodes":  {"{matchLabels: {rack: a}}", "{matchLabels: {rack: b}}", ""},
		"the same":     {"{matchLabels: {rack: a}}", "{matchLabels: {rack: a}}", "bgp.peers[1].address: Duplicate value: \"10.0.0.1\": two routers with one address or interface both need nodeSelectors"},
		"one has none": {"{matchLabels: {rack: a}}", "", "bgp.peers[1].address: Duplicate value"},
	} {
		_, wrong := readBGP(t, fmt.Sprintf("{asn: 1, peers: ["+peer+", "+peer+"]}", "a", test.a, "b", test.b))
		if got := strings.Join(wrong, "; "); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestBGPErrors(t *testing.T) {
	for text, want := range map[string][]string{
		"{}": {`bgp.asn: Required`, `bgp.peers: Required`},
		"{asn: 1, routerID: '::1', listenPort: 70000, mode: Fast, peers: [{address: 10.0.0.1, asn: 1}]}": {
			`bgp.routerID: Invalid value: "::1"`, `bgp.listenPort: Invalid value: 70000`, `bgp.mode: Unsupported value: "Fast"`,
		},
		"{asn: 1, restartTime: 5s, peers: [{address: 10.0.0.1, asn: 1}]}": {
			`bgp.restartTime: Invalid value: "5s": goes with mode GracefulRestart`,
		},
		"{asn: 1, mode: GracefulRestart, restartTime: 1h30m, peers: [{address: 10.0.0.1, asn: 1, bfd: {}}]}": {
			`bgp.restartTime: Invalid value: "1h30m0s"`, `bgp.peers[0].bfd: Invalid value: "set": does not go with`,
		},
		"{asn: 1, communities: ['70000:1', 'x', 'no-export', 'no-export'], peers: [{address: 10.0.0.1, asn: 1, communities: ['1']}]}": {
			`bgp.communities[0]: Invalid value: "70000:1"`, `bgp.communities[1]: Invalid value: "x"`, `bgp.communities[3]: Duplicate value`,
			`bgp.peers[0].communities[0]: Invalid value: "1"`,
		},
		"{asn: 1, pools: [{name: a}, {name: a, communities: ['1:2:3:4']}, {}], peers: [{address: 10.0.0.1, asn: 1}]}": {
			`bgp.pools[1].name: Duplicate value: "a"`, `bgp.pools[1].communities[0]: Invalid value: "1:2:3:4"`,
			`bgp.pools[2].name: Required`,
		},
		"{asn: 1, peers: [{address: 10.0.0.1, asn: 1}, {address: 10.0.0.1}, {address: 'fe80::1%eth0', asn: 1, port: 0x10000}, " +
			"{name: 10.0.0.1, address: x, asn: 2}]}": {
			`bgp.peers[1].address: Duplicate value`, `bgp.peers[1].name: Duplicate value`, `bgp.peers[1].asn: Required`,
			`bgp.peers[2].address: Invalid value: "fe80::1%eth0"`, `bgp.peers[2].port: Invalid value: 65536`,
			`bgp.peers[3].name: Duplicate value`, `bgp.peers[3].address: Invalid value: "x"`,
		},
		"{asn: 1, peers: [{address: 10.0.0.1, asn: 2, holdTime: 2500ms, keepaliveTime: 4s, connectRetry: 1s, sourceAddress: '::1'}]}": {
			`bgp.peers[0].holdTime: Invalid value: "2.5s"`, `bgp.peers[0].keepaliveTime: Invalid value: "4s": must be less`,
			`bgp.peers[0].connectRetry: Invalid value: "1s"`, `bgp.peers[0].sourceAddress: Invalid value: "::1"`,
		},
		"{asn: 1, peers: [{address: 10.0.0.1, asn: 1, ebgpMultihop: 2}, {address: 10.0.0.2, asn: 2, ebgpMultihop: 1}, " +
			"{address: 10.0.0.3, asn: 3, ebgpMultihop: 2, bfd: {multiplier: 1, transmitInterval: 1ms}}]}": {
			`bgp.peers[0].ebgpMultihop: Invalid value: 2: is for external`, `bgp.peers[1].ebgpMultihop: Invalid value: 1`,
			`bgp.peers[2].bfd: Invalid value: "set": is of a single hop`, `bgp.peers[2].bfd.multiplier: Invalid value: 1`,
			`bgp.peers[2].bfd.transmitInterval: Invalid value: "1ms"`,
		},
		"{asn: 1, peers: [{address: 10.0.0.1, asn: 2, ttlSecurityHops: 255}, {address: 10.0.0.2, asn: 2, ttlSecurityHops: 1, ebgpMultihop: 2}, " +
			"{address: 10.0.0.3, asn: 2, ttlSecurityHops: 2, bfd: {}}]}": {
			`bgp.peers[0].ttlSecurityHops: Invalid value: 255`, `bgp.peers[1].ttlSecurityHops: Invalid value: 1: does not go with ebgpMultihop`,
			`bgp.peers[2].bfd: Invalid value: "set": is of a single hop`,
		},
		"{asn: 1, peers: [{address: 10.0.0.1, asn: 2, dynamicASN: External}, {address: 10.0.0.2, asn: 2, dynamicASN: Internal}, " +
			"{address: 10.0.0.3, dynamicASN: Any}]}": {
			`bgp.peers[0].asn: Invalid value: 2: does not go with dynamicASN: External`, `bgp.peers[1].asn: Invalid value: 2: does not go with`,
			`bgp.peers[2].dynamicASN: Unsupported value: "Any"`,
		},
		"{asn: 1, peers: [{address: 10.0.0.1, asn: 1, families: [IPv4, IPv5, IPv4]}]}": {
			`bgp.peers[0].families[1]: Unsupported value: "IPv5"`, `bgp.peers[0].families[2]: Duplicate value`,
		},
	} {
		_, wrong := readBGP(t, text)
		if len(wrong) != len(want) {
			t.Errorf("%s: %d errors, want %d: %q", text, len(wrong), len(want), wrong)
		}
		for _, line := range want {
			if !slices.ContainsFunc(wrong, func(got string) bool { return strings.HasPrefix(got, line) }) {
				t.Errorf("%s: nothing says %q: %q", text, line, wrong)
			}
		}
	}
}

func TestBGPPoolNames(t *testing.T) {
	section := BGP{Pools: []BGPPool{{Name: "a"}, {Name: "b"}}}
	errs := section.validatePoolNames(field.NewPath("bgp"), []Pool{{Name: "a"}})
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), `bgp.pools[1].name: Not found: "b"`) {
		t.Errorf("%v", errs)
	}
}

func TestBGPAttributes(t *testing.T) {
	section := BGP{
		BGPAttributes: BGPAttributes{Communities: []string{"1:1"}, LocalPreference: ptr.To(uint32(120))},
		Pools: []BGPPool{
			{Name: "marked", BGPAttributes: BGPAttributes{Communities: []string{"2:2"}}},
			{Name: "preferred", BGPAttributes: BGPAttributes{LocalPreference: ptr.To(uint32(0))}},
			{Name: "bare", BGPAttributes: BGPAttributes{Communities: []string{}}},
		},
	}
	for pool, want := range map[string]BGPAttributes{
		"":          {Communities: []string{"1:1"}, LocalPreference: ptr.To(uint32(120))},
		"marked":    {Communities: []string{"2:2"}, LocalPreference: ptr.To(uint32(120))},
		"preferred": {Communities: []string{"1:1"}, LocalPreference: ptr.To(uint32(0))},
		"bare":      {Communities: []string{}, LocalPreference: ptr.To(uint32(120))},
	} {
		if diff := cmp.Diff(want, section.Attributes(pool)); diff != "" {
			t.Errorf("pool %q (-want +got):\n%s", pool, diff)
		}
	}
	if plain := (&BGP{}).Attributes(""); *plain.LocalPreference != 100 {
		t.Errorf("local preference %d", *plain.LocalPreference)
	}
}

func TestParseCommunities(t *testing.T) {
	standard, large, err := BGPAttributes{Communities: []string{"65535:65281", "no-export", "4294967295:0:1"}}.ParseCommunities()
	if err != nil || !slices.Equal(standard, []uint32{0xFFFFFF01, 0xFFFFFF01}) ||
		!slices.Equal(large, []LargeCommunity{{Global: 4294967295, Local2: 1}}) || large[0].String() != "4294967295:0:1" {
		t.Errorf("%x, %v, %v", standard, large, err)
	}
}

// What is internal follows from the autonomous system that the speaker has for the router.
func TestLocalASN(t *testing.T) {
	const head = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\nbgp:\n  asn: 64512\n  peers:\n"
	read := func(peer string) (*CloudConfig, error) { return Read(strings.NewReader(head+"  - "+peer), ".") }
	made, err := read("{address: 192.0.2.1, localASN: 65010, dynamicASN: Internal}")
	if err != nil || made.BGP.Peers[0].ASN != 65010 {
		t.Errorf("an internal router has another autonomous system: %v", err)
	}
	if _, err := read("{address: 192.0.2.1, asn: 64512, localASN: 65010, ebgpMultihop: 2}"); err != nil {
		t.Errorf("a router in the section's autonomous system is external: %v", err)
	}
	if _, err := read("{address: 192.0.2.1, asn: 65010, localASN: 65010, ebgpMultihop: 2}"); err == nil {
		t.Error("a router in the speaker's autonomous system for it is internal")
	}
}

// checkPeers reads peers, in YAML's short form. They are valid and the first one has a name, or the error has what is wanted.
func checkPeers(t *testing.T, peers, name, want string) {
	t.Helper()
	const head = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\nbgp:\n  asn: 64512\n  peers: ["
	made, err := Read(strings.NewReader(head+peers+"]"), ".")
	if want == "" && (err != nil || made.BGP.Peers[0].Name != name) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %s", peers, err, want)
	}
}

// A router at the other end of a link has the name of the interface in the place of an address.
func TestInterface(t *testing.T) {
	for peers, want := range map[string]string{
		"{interface: eth0, dynamicASN: External, ttlSecurityHops: 1, bfd: {}}, {interface: eth1, asn: 64513}":                                           "",
		"{interface: eth0, asn: 1, nodeSelectors: [{matchLabels: {a: b}}]}, {name: b, interface: eth0, asn: 2, nodeSelectors: [{matchLabels: {a: c}}]}": "",
		"{interface: eth0, asn: 1}, {name: b, interface: eth0, asn: 1}":                                                                                 "interface: Duplicate value",
		"{interface: eth0, asn: 1, address: 192.0.2.1}":                                                                                                 "does not go with interface",
		"{interface: eth0, asn: 1, defaultGateway: IPv4}":                                                                                               "does not go with defaultGateway",
		"{interface: eth0, asn: 1, sourceSubnet: 10.0.0.0/8}":                                                                                           "sourceSubnet: Invalid value",
		"{interface: eth0, asn: 1, ebgpMultihop: 2}":                                                                                                    "ebgpMultihop: Invalid value",
		"{interface: 'eth0%1', asn: 1}":                                                                                                                 "must be the name of an interface",
		"{interface: a-very-long-interface, asn: 1}":                                                                                                    "must be the name of an interface",
	} {
		checkPeers(t, peers, "eth0", want)
	}
}

// A router that is the default gateway has a name and a family in the place of an address.
func TestDefaultGateway(t *testing.T) {
	for peers, want := range map[string]string{
		"{defaultGateway: IPv4, asn: 64513, sourceSubnet: 10.0.0.0/8}, {defaultGateway: IPv6, asn: 64513}": "",
		"{defaultGateway: IPv4, asn: 64513, address: 192.0.2.1}":                                           "does not go with defaultGateway",
		"{defaultGateway: IPv4, asn: 1}, {name: b, defaultGateway: IPv4, asn: 1}":                          "defaultGateway: Duplicate value",
		"{defaultGateway: yes, name: a, asn: 1}":                                                           "defaultGateway",
		"{defaultGateway: IPv6, asn: 1, sourceSubnet: 10.0.0.0/8}":                                         "same family",
		"{asn: 1}": "must be an IPv4 or IPv6 address",
	} {
		checkPeers(t, peers, "gateway-ipv4", want)
	}
}
