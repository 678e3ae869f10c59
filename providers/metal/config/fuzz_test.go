package config

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
)

// examplesOf returns the YAML of all pages of the documentation that is of a kind, for fuzzers to begin with.
func examplesOf(f *testing.F, kind string) []string {
	f.Helper()
	pages, err := filepath.Glob("../../../docs/*/*.md")
	if err != nil {
		f.Fatal(err)
	}
	var found []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			f.Fatal(err)
		}
		for _, match := range block.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(match[1], "kind: "+kind+"\n") {
				found = append(found, match[1])
			}
		}
	}
	if len(found) == 0 {
		f.Fatalf("the documentation shows no %s", kind)
	}
	return found
}

// elsewhere finds what a config must not name in a fuzzer: files of this machine.
var elsewhere = regexp.MustCompile(`paths|/dev|/proc|/sys|\.\.`)

// checkErrors asserts what holds for every error of a config: it names a field and what is wrong in one printable line.
func checkErrors(t *testing.T, errs field.ErrorList) {
	t.Helper()
	for _, err := range strict.Merge(nil, errs) {
		text := err.Error()
		switch {
		case err.Field == "" || err.Type == field.ErrorTypeInternal:
			t.Errorf("the error names no field: %q", text)
		case len(text) > 4000 || !utf8.ValidString(text):
			t.Errorf("an error of %d bytes, valid %t: %.200q", len(text), utf8.ValidString(text), text)
		case strings.IndexFunc(text, unicode.IsControl) >= 0:
			t.Errorf("an error with control characters: %q", text)
		}
	}
}

// FuzzCloudConfig asserts that what is accepted is accepted again with all its defaults written out, and is the same then.
func FuzzCloudConfig(f *testing.F) {
	for _, example := range examplesOf(f, CloudConfigKind) {
		f.Add(example)
	}
	for _, text := range []string{
		"", head, head + "pools: [{name: a, addresses: [192.0.2.0/24, 192.0.2.1-192.0.2.3, '2001:db8::/64', '::ffff:192.0.2.1']}]\n",
		head + "pools: [{name: a, addresses: ['1.2.3.4/0', 'fe80::1%eth0', 10.0.0.9-10.0.0.1, 0.0.0.0/0, '::/0']}]\n",
		head + "bgp: {asn: 4294967295, peers: [{address: 10.0.0.1, asn: 0}]}\n",
		head + "bgp: {asn: 1, peers: [{address: 10.0.0.1, asn: 1, communities: ['65536:1', '1:2:3:4', no-export, 'x\\x00y']}]}\n",
		head + "bgp: {asn: 1, communityAliases: {a: '1:2', b: a}, peers: [{address: '2001:db8::1', asn: 2, holdTime: 1s}]}\n",
		head + "l2: {interfaces: [eth0]}\n", head + "power: {interval: -1s, timeout: 100h, outOfService: {enabled: yes}}\n",
		head + "inventory: {machines: [{name: n1, systemUUID: ffffffff-ffff-ffff-ffff-ffffffffffff, addresses: [{address: x}]}]}\n",
		head + "inventory: {machines: [{name: N_1, id: 'a/b', labels: {kubernetes.io/x: y, a: '!'}, macAddresses: [zz]}]}\n",
		head + "inventory: {machines: [{name: n1, bmc: {ipmi: {address: '[::1]:99999', cipherSuite: 0}, redfish: {endpoint: 'ftp://x'}}}]}\n",
		head + groupedMachines + "nodeGroups: [{name: a, machines: {zones: [z]}}, {name: A, machines: {names: [n1, n9]}, minSize: 3, maxSize: -1}]\n",
		"apiVersion: metal.mooring.dev/v2\nkind: [a]\n", head + "pools: &a [*a]\n", head + `"a\nb": {"c": 1}` + "\n",
	} {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if elsewhere.MatchString(text) {
			return // what it says depends on files
		}
		seen := Examine([]byte(text), dir)
		checkErrors(t, seen.Errors)
		first, err := Read(strings.NewReader(text), dir)
		if (err == nil) != (len(seen.Errors) == 0) {
			t.Fatalf("examined: %v; read: %v", seen.Errors, err)
		}
		if err != nil {
			return
		}
		written, err := yaml.Marshal(first)
		if err != nil {
			t.Fatalf("accepted, and cannot be written: %v", err)
		}
		again, err := Read(strings.NewReader(string(written)), dir)
		if err != nil {
			t.Fatalf("%s\nis accepted, and what it means is not:\n%s\n%v", text, written, err)
		}
		origin := cmpopts.IgnoreFields(Machine{}, "Origin", "IDFrom") // they say where a value came from
		if diff := cmp.Diff(first, again, cmpopts.EquateEmpty(), origin, cmpopts.IgnoreUnexported(Machine{})); diff != "" {
			t.Errorf("%s\nchanges when it is written (-first +again):\n%s", text, diff)
		}
		for _, pool := range first.Pools {
			if _, err := pool.Ranges(); err != nil {
				t.Errorf("a valid pool has no ranges: %v", err)
			}
		}
	})
}

func FuzzMachineList(f *testing.F) {
	for _, example := range examplesOf(f, MachineListKind) {
		f.Add(example)
	}
	f.Add(listHead + "machines: [{name: n1}, {name: n1}, {name: '', addresses: [{type: What, address: '1.2.3.4 '}]}]\n")
	f.Add(listHead + "defaults: {zone: 'a b', region: \"\\0\", labels: {'': ''}}\nmachines: [null, 1, [], {}]\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if elsewhere.MatchString(text) {
			return // what it says depends on files
		}
		seen := ExamineMachineList([]byte(text), dir)
		checkErrors(t, seen.Errors)
		machines, errs := parseList([]byte(text), "list.yaml", dir, MachineDefaults{})
		for i := range machines {
			if id := machines[i].ProviderID(); len(errs) == 0 && !strings.HasPrefix(id, ProviderIDScheme+"://"+machines[i].ID) {
				t.Errorf("machine %+v has the provider ID %q", machines[i], id)
			}
		}
	})
}

// FuzzAddressRange asserts that a range is in order, of one family, usable, and the same when it is written and read again.
func FuzzAddressRange(f *testing.F) {
	for _, text := range []string{
		"192.0.2.0/24", "192.0.2.10-192.0.2.20", "192.0.2.1", "2001:db8::/64", "2001:db8::1-2001:db8::ffff", "192.0.2.1/24", "0.0.0.0/0", "::/0",
		"fe80::1%eth0", "::ffff:192.0.2.1", "192.0.2.1 - 192.0.2.3", "1-2-3", "-", "/", "192.0.2.300", "192.0.2.0/33", "01.2.3.4", "2001:db8::/-1", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parseRange(text)
		if err != nil {
			checkErrors(t, field.ErrorList{field.Invalid(field.NewPath("addresses"), "", err.Error())})
			return
		}
		if !parsed.First.IsValid() || parsed.Last.Less(parsed.First) || parsed.First.Is4() != parsed.Last.Is4() {
			t.Errorf("%q is %s", text, parsed)
		}
		for _, addr := range []netip.Addr{parsed.First, parsed.Last} {
			if addr.IsLoopback() || addr.IsMulticast() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || addr.Is4In6() || addr.Zone() != "" {
				t.Errorf("%q holds %s", text, addr)
			}
		}
		if again, err := parseRange(parsed.String()); err != nil || again != parsed {
			t.Errorf("%q is %s, and that is %s, %v", text, parsed, again, err)
		}
	})
}

// FuzzCommunity asserts that a community is the same when it is written as numbers.
func FuzzCommunity(f *testing.F) {
	for _, text := range []string{"65000:100", "65000:1:2", "no-export", "blackhole", "65536:1", "1:2:3:4", "", ":", "-1:2", "+1:2", "0x1:2", "1:99999999999", "a:b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		errs := validateCommunity(field.NewPath("communities"), text)
		checkErrors(t, errs)
		standard, large, err := (BGPAttributes{Communities: []string{text}}).ParseCommunities()
		if (err == nil) != (len(errs) == 0) || err == nil && len(standard)+len(large) != 1 {
			t.Fatalf("%q: %v, %v; %v", text, standard, large, err)
		}
		var numbers []string
		for _, one := range standard {
			numbers = append(numbers, fmt.Sprintf("%d:%d", one>>16, one&0xffff))
		}
		for _, one := range large {
			numbers = append(numbers, one.String())
		}
		again, largeAgain, err := (BGPAttributes{Communities: numbers}).ParseCommunities()
		if err != nil || !slices.Equal(again, standard) || !slices.Equal(largeAgain, large) {
			t.Errorf("%q is %q, and that is %v %v, %v", text, numbers, again, largeAgain, err)
		}
	})
}

// FuzzUUID asserts that the spelling of a system UUID does not matter, nor which order of its bytes is meant.
func FuzzUUID(f *testing.F) {
	for _, text := range []string{"4c4c4544-0051-3510-8052-b4c04f4e3532", "4C4C4544005135108052B4C04F4E3532", "{4c4c4544-0051-3510-8052-b4c04f4e3532}",
		"urn:uuid:4c4c4544-0051-3510-8052-b4c04f4e3532", "00000000-0000-0000-0000-000000000000", "12345678-1234-5678-90ab-cddeefaabbcc", "x", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		canonical, ok := CanonicalUUID(text)
		checkErrors(t, validateUUID(field.NewPath("systemUUID"), text))
		if !ok {
			return
		}
		for _, spelling := range []string{canonical, strings.ToUpper(canonical), "{" + canonical + "}", strings.ReplaceAll(canonical, "-", "")} {
			if again, ok := CanonicalUUID(spelling); !ok || again != canonical {
				t.Errorf("%q is %q, and %q is %q", text, canonical, spelling, again)
			}
		}
		if known, ok := KnownUUID(text); ok && known != canonical {
			t.Errorf("%q is %q and %q", text, canonical, known)
		}
	})
}

// A config is JSON or YAML, and what is one in both is the same in both.
func FuzzConfigFormats(f *testing.F) {
	f.Add(`{"apiVersion":"metal.mooring.dev/v1alpha1","kind":"MetalCloudConfig","pools":[{"name":"a","addresses":["192.0.2.0/24"],"priority":1}]}`)
	f.Add(`{"apiVersion":"metal.mooring.dev/v1alpha1","kind":"MetalCloudConfig","bgp":{"asn":64512,"peers":[{"address":"10.0.0.1","asn":64513}]}}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if elsewhere.MatchString(text) || !json.Valid([]byte(text)) {
			return // what it says depends on files, or it is no JSON
		}
		first, err := Read(strings.NewReader(text), dir)
		if err != nil {
			return
		}
		asYAML, err := yaml.JSONToYAML([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		second, err := Read(strings.NewReader(string(asYAML)), dir)
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Machine{})); err != nil || diff != "" {
			t.Errorf("%s\nas YAML: %v\n%s", text, err, diff)
		}
	})
}
