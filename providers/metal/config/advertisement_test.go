package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
)

// advertised are pools, and the least that a section needs, for advertisements to be appended to.
const advertised = `
pools:
- {name: public, addresses: [192.0.2.0/25, 192.0.2.128-192.0.2.255, "2001:db8::/64"]}
- {name: odd, addresses: [198.51.100.10-198.51.100.20, "2001:db8:1::10"]}
bgp:
  asn: 64512
  communityAliases: {transit: "64512:7"}
  peers:
  - {name: rack-1, address: 10.0.0.1, asn: 64512}
  - {name: rack-2, address: 10.0.0.2, asn: 64512}
`

// wrongWith returns what is wrong with a config, a line each.
func wrongWith(t *testing.T, text string) []string {
	t.Helper()
	config := &CloudConfig{}
	if errs := strict.YAML([]byte(head+text), config); len(errs) > 0 {
		t.Fatal(errs)
	}
	config.setDefaults()
	var wrong []string
	for _, err := range config.validate() {
		if err.Type != field.ErrorTypeForbidden {
			wrong = append(wrong, err.Error())
		}
	}
	return wrong
}

func TestAdvertisements(t *testing.T) {
	for name, test := range map[string]struct {
		advertisements string
		want           []string
	}{
		"whole": {`
  - name: transit
    pools: [public]
    peers: [rack-1]
    nodeSelectors: [{matchLabels: {rack: a}}, {matchExpressions: [{key: edge, operator: Exists}]}]
    communities: [transit, no-export]
    localPreference: 0
    aggregationLength: 24
    aggregationLengthV6: 64
  - {pools: [public], serviceSelectors: [{matchLabels: {app: web}}], aggregationLength: 32, aggregationLengthV6: 128}
  - {}`, nil},
		"names": {`
  - {name: a, pools: [public, public, none], peers: [rack-3, rack-1, rack-1]}
  - {name: a}`, []string{
			`bgp.advertisements[0].pools[1]: Duplicate value: "public"`, `bgp.advertisements[0].pools[2]: Not found: "none"`,
			`bgp.advertisements[0].peers[0]: Not found: "rack-3"`, `bgp.advertisements[0].peers[2]: Duplicate value: "rack-1"`,
			`bgp.advertisements[1].name: Duplicate value: "a"`,
		}},
		"selectors": {`
  - {serviceSelectors: [{matchExpressions: [{key: a, operator: Is}]}], nodeSelectors: [{}, {matchLabels: {"a b": c}}]}`, []string{
			`bgp.advertisements[0].serviceSelectors[0].matchExpressions[0].operator: Invalid value: "Is"`,
			`bgp.advertisements[0].nodeSelectors[1].matchLabels: Invalid value: "a b"`,
		}},
		"communities": {`
  - {communities: [transit, "64512:7", elsewhere]}`, []string{
			`bgp.advertisements[0].communities[1]: Duplicate value: "64512:7"`,
			`bgp.advertisements[0].communities[2]: Invalid value: "elsewhere"`,
		}},
		"lengths": {`
  - {pools: [public], aggregationLength: 33, aggregationLengthV6: -1}
  - {pools: [public], aggregationLength: 24, serviceSelectors: [{matchLabels: {a: b}}]}`, []string{
			`bgp.advertisements[0].aggregationLength: Invalid value: 33: must be 1 to 32`,
			`bgp.advertisements[0].aggregationLengthV6: Invalid value: -1: must be 1 to 128`,
			`bgp.advertisements[1].aggregationLength: Invalid value: 24: does not go with serviceSelectors`,
		}},
		"prefixes with addresses of others": {`
  - {pools: [public], aggregationLength: 23, aggregationLengthV6: 63}
  - {aggregationLength: 24, aggregationLengthV6: 127}`, []string{
			`bgp.advertisements[0].aggregationLength: Invalid value: 23: 192.0.2.0/23 also has addresses that are not in pool "public"`,
			`bgp.advertisements[0].aggregationLength: Invalid value: 23: 192.0.2.0/23 also has addresses that are not in pool "public"`,
			`bgp.advertisements[0].aggregationLengthV6: Invalid value: 63: 2001:db8::/63 also has`,
			`bgp.advertisements[1].aggregationLength: Invalid value: 24: 198.51.100.0/24 also has addresses that are not in pool "odd"`,
			`bgp.advertisements[1].aggregationLengthV6: Invalid value: 127: 2001:db8:1::10/127 also has`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			says(t, wrongWith(t, advertised+"  advertisements:"+test.advertisements), test.want)
		})
	}
}

func says(t *testing.T, wrong, want []string) {
	t.Helper()
	if len(wrong) != len(want) {
		t.Errorf("%d errors, want %d: %q", len(wrong), len(want), wrong)
	}
	for _, line := range want {
		if !slices.ContainsFunc(wrong, func(got string) bool { return strings.HasPrefix(got, line) }) {
			t.Errorf("nothing says %q: %q", line, wrong)
		}
	}
}

func TestSubnetsAndAliases(t *testing.T) {
	_, wrong := readBGP(t, `
asn: 1
communities: [transit]
communityAliases: {transit: "1:2", no-export: "1:3", "1:4": "1:5", odd: none}
nextHopSubnets: [10.0.0.0/8, 10.0.0.1/8, "2001:db8::/32"]
peers:
- {address: 10.0.0.1, asn: 1, sourceSubnet: 10.0.0.0/24, nextHopSubnets: [10.1.0.0/16, 10.1.0.0/16, x]}
- {address: 10.0.0.2, asn: 1, sourceSubnet: "2001:db8::/64", nodeSelectors: [{matchExpressions: [{key: a, operator: Is}]}]}
- {address: 10.0.0.3, asn: 1, sourceSubnet: 10.0.0.0/24, sourceAddress: 10.0.0.9}
- {address: 10.0.0.4, asn: 1, sourceSubnet: 10.0.0.4/24}
`)
	says(t, wrong, []string{
		`bgp.communityAliases: Invalid value: "no-export": must be a name`, `bgp.communityAliases: Invalid value: "1:4"`,
		`bgp.communityAliases[odd]: Invalid value: "none"`, `bgp.nextHopSubnets[1]: Invalid value: "10.0.0.1/8": the address has bits`,
		`bgp.peers[0].nextHopSubnets[1]: Duplicate value`, `bgp.peers[0].nextHopSubnets[2]: Invalid value: "x"`,
		`bgp.peers[1].sourceSubnet: Invalid value: "2001:db8::/64": must be of the same family`,
		`bgp.peers[1].nodeSelectors[0].matchExpressions[0].operator: Invalid value: "Is"`,
		`bgp.peers[2].sourceSubnet: Invalid value: "10.0.0.0/24": does not go with sourceAddress`,
		`bgp.peers[3].sourceSubnet: Invalid value: "10.0.0.4/24": the address has bits`,
	})
}

func TestWhoSpeaksWithPeers(t *testing.T) {
	text := head + advertised + "  - {address: 10.0.0.3, asn: 1, sourceSubnet: 10.0.0.0/8, nodeSelectors: [{matchLabels: {rack: a}}]}\n"
	read, err := Read(strings.NewReader(text), "")
	if err != nil {
		t.Fatal(err)
	}
	if peer := read.BGP.Peers[len(read.BGP.Peers)-1]; peer.SourceSubnet != "10.0.0.0/8" || len(peer.NodeSelectors) != 1 {
		t.Errorf("%+v", peer)
	}
	_, wrong := readBGP(t, `
asn: 1
mode: GracefulRestart
peers:
- {address: 10.0.0.1, asn: 1, sourceSubnet: 10.0.0.0/24}
- {address: 10.0.0.2, asn: 1, nodeSelectors: [{matchLabels: {rack: a}}]}
`)
	says(t, wrong, []string{`bgp.peers[1].nodeSelectors: Invalid value: "set": does not go with mode GracefulRestart`})
}

func TestExamplesOfAdvertisements(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/metal-advertisements.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) < 2 {
		t.Fatalf("the page shows %d examples", len(examples))
	}
	for _, example := range examples {
		if _, err := Read(strings.NewReader(head+example[1]), ""); err != nil {
			t.Errorf("an example does not load: %v\n%s", err, example[1])
		}
	}
}

func TestMatchesAny(t *testing.T) {
	selectors := []metav1.LabelSelector{
		{MatchLabels: map[string]string{"rack": "a"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "edge", Operator: metav1.LabelSelectorOpExists}}},
	}
	for _, test := range []struct {
		selectors []metav1.LabelSelector
		labels    map[string]string
		want      bool
	}{
		{nil, nil, true}, {selectors, nil, false}, {selectors, map[string]string{"rack": "a"}, true},
		{selectors, map[string]string{"rack": "b"}, false}, {selectors, map[string]string{"edge": ""}, true},
		{[]metav1.LabelSelector{{}}, nil, true},
		{[]metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}}, nil, false},
	} {
		if got := MatchesAny(test.selectors, test.labels); got != test.want {
			t.Errorf("%v of %v: %t", test.selectors, test.labels, got)
		}
	}
}
