package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWarnings(t *testing.T) {
	const pool, peers = "pools:\n- {name: p, addresses: [192.0.2.0/24]}\n", "bgp:\n  asn: 64512\n  peers:\n  - {address: 10.0.0.1, asn: 64512}\n"
	for name, c := range map[string]struct {
		config string
		want   []string
	}{
		"nothing suspicious": {pool + peers, nil},
		"nothing at all":     {"", []string{"kind: the config turns nothing on: it has neither inventory, pools, bgp nor l2"}},
		"not announced":      {pool, []string{"pools: Services get addresses that no replica announces: neither bgp nor l2 is set"}},
		"only by request": {
			"pools:\n- {name: p, addresses: [192.0.2.0/24], autoAssign: false}\n" + peers,
			[]string{"pools: no pool has autoAssign and is not disabled: a Service gets an address only if it names a pool or an address"},
		},
		"l2 without pools": {"l2: {}\n", []string{"l2: no Service gets an address to answer for: there are no pools"}},
		"pools of l2": {
			pool + "l2: {pools: [q]}\n", []string{
				`l2.pools[0]: there is no pool "q"`,
				`pools[0]: no replica announces the addresses of the pool "p": l2.pools does not name it, and there is no bgp`,
			},
		},
		"nothing to announce": {
			"announcement: {podRoutes: false}\n" + peers,
			[]string{"bgp: there is nothing to announce: there are no pools, and announcement.podRoutes is false"},
		},
		"few next hops": {
			pool + peers + "announcement: {localNextHops: 4}\n", []string{
				"announcement.localNextHops: is less than clusterNextHops, 8: a Service with externalTrafficPolicy Local may need all nodes that have its pods",
			},
		},
		"sessions": {
			pool + "bgp:\n  asn: 64512\n  localPreference: 50\n  routerID: 10.0.0.9\n  peers:\n" +
				"  - {address: 10.0.0.1, asn: 64513, holdTime: 90s, localPreference: 7, sourceAddress: 10.0.0.9, families: [IPv6]}\n", []string{
				"pools[0].addresses[0]: no router receives these addresses: no peer's families include IPv4",
				"bgp.peers[0].holdTime: this router keeps the routes of a crashed replica for 1m30s; with bfd it drops them within a second",
				"bgp.peers[0].localPreference: an external router never sees it",
				"bgp.peers[0].sourceAddress: only the replica that has the address 10.0.0.9 gets a session; leave it empty with several replicas",
				"bgp.localPreference: all peers are external, and an external router never sees it",
				"bgp.routerID: all replicas have the same one; leave it empty with several replicas",
			},
		},
		"machines": {
			"inventory: {machines: [{name: a, addresses: [{address: 10.0.0.5}], bmc: {redfish: {endpoint: 'https://10.0.9.5', insecureSkipVerify: true}, " +
				"credentials: {username: u, passwordFile: p}}}]}\n", []string{
				"inventory.machines[0].bmc.redfish.insecureSkipVerify: an attacker on the path to the BMC can read its password and report that a is off; set bmc.redfish.caFile instead",
			},
		},
		"out of service without a BMC": {
			"power: {outOfService: {enabled: true}}\ninventory: {machines: [{name: a, addresses: [{address: 10.0.0.5}]}]}\n",
			[]string{"power.outOfService.enabled: no node gets the taint: no machine has a bmc, which would report that it is off"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := Examine([]byte(head+c.config), t.TempDir())
			if len(found.Errors) > 0 {
				t.Fatal(found.Errors)
			}
			var got []string
			for _, warning := range found.Warnings {
				got = append(got, warning.Field+": "+warning.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// A file that several machines inherit is named once, where it stands.
func TestNamedFiles(t *testing.T) {
	const bmc = "bmc: {redfish: {endpoint: 'https://10.0.9.%'}}"
	machine := func(name string) string {
		return "{name: m" + name + ", addresses: [{address: 10.0.0." + name + "}], " + strings.Replace(bmc, "%", name, 1) + "}"
	}
	dir := write(t, map[string]string{"list.yaml": listHead +
		"defaults: {bmc: {caFile: /ca}}\nmachines: [" + machine("3") + "]\n"})
	found := Examine([]byte(head+"inventory:\n  paths: [list.yaml]\n  defaults: {bmc: {credentials: {username: u, passwordFile: password}}}\n"+
		"  machines: ["+machine("1")+", "+machine("2")+"]\nbgp: {asn: 1, peers: [{address: 10.0.0.254, asn: 1, passwordFile: /md5}]}\n"), dir)
	if len(found.Errors) > 0 {
		t.Fatal(found.Errors)
	}
	want := []NamedFile{
		{"inventory.defaults.bmc.credentials.passwordFile", dir + "/password"},
		{"list.yaml: machines[0].bmc.redfish.caFile", "/ca"},
		{"bgp.peers[0].passwordFile", "/md5"},
	}
	if diff := cmp.Diff(want, found.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
