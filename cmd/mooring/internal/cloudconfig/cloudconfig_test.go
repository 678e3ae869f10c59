package cloudconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExamine(t *testing.T) {
	const (
		metalHead = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\n"
		listHead  = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MachineList\n"
		simHead   = "apiVersion: sim.mooring.dev/v1alpha1\nkind: CloudConfig\nendpoint: https://x\nregion: r\n"
		known     = "MetalCloudConfig of metal.mooring.dev/v1alpha1 (provider metal), MachineList of metal.mooring.dev/v1alpha1 (provider metal), " +
			"CloudConfig of sim.mooring.dev/v1alpha1 (provider sim)"
		conf          = "[Global]\nauth-url=https://keystone.example:5000/v3\nregion=R\napplication-credential-id=i\napplication-credential-secret=s\n"
		noCredentials = "there are no credentials: application-credential-id and application-credential-secret, or username and password, or trust-id, or token"
		bgp           = "pools: [{name: p, addresses: [192.0.2.0/24]}]\nbgp: {asn: 1, peers: [{address: 10.0.0.1, asn: 1, passwordFile: md5}]}\n"
	)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		config    string
		needFiles bool
		want      string
	}{
		"valid": {
			metalHead + "pools: [{name: p, addresses: [192.0.2.0/24]}]\nl2: {}\n", false,
			"FILE: MetalCloudConfig of the provider metal\nvalid: 0 errors, 0 warnings\n",
		},
		"all errors": {
			metalHead + "pools: [{name: P, addresses: [x]}]\nbgp: {peers: []}\nother: secret\n", false,
			"FILE: MetalCloudConfig of the provider metal\n" +
				"ERROR    line 5: other: Invalid value: unknown field; known here: announcement, apiVersion, bgp, inventory, kind, l2, nodeGroupLease, nodeGroups, pools, power\n" +
				"ERROR    line 3: pools[0].name: Invalid value: \"P\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', " +
				"and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')\n" +
				"ERROR    line 3: pools[0].addresses[0]: Invalid value: \"x\": neither a prefix, a range nor an address: ParseAddr(\"x\"): unable to parse IP\n" +
				"ERROR    line 4: bgp.asn: Required value: the autonomous system of the speaker, for example 64512\n" +
				"ERROR    line 4: bgp.peers: Required value: at least one router\ninvalid: 5 errors, 0 warnings\n",
		},
		"a file elsewhere": {
			metalHead + bgp, false, "FILE: MetalCloudConfig of the provider metal\n" +
				"WARNING  bgp.peers[0].passwordFile: DIR/md5: no such file or directory; it has to be readable where the manager runs\nvalid: 0 errors, 1 warning\n",
		},
		"a file that is missing": {
			metalHead + bgp, true, "FILE: MetalCloudConfig of the provider metal\n" +
				"ERROR    bgp.peers[0].passwordFile: DIR/md5: no such file or directory\ninvalid: 1 error, 0 warnings\n",
		},
		"a list that is missing": {
			metalHead + "inventory: {paths: [racks]}\n", false, "FILE: MetalCloudConfig of the provider metal\n" +
				"ERROR    line 3: inventory.paths[0]: Invalid value: \"racks\": open DIR/racks: no such file or directory\ninvalid: 1 error, 0 warnings\n",
		},
		"machines": {
			listHead + "machines:\n- {name: a, addresses: [{address: 10.0.0.1}], bmc: {ipmi: {address: 10.0.9.1}}}\n- {name: a, addresses: [{address: 10.0.0.1}]}\n",
			false, "FILE: MachineList of the provider metal\n" +
				"ERROR    line 5: machines[1].addresses: Duplicate value: \"10.0.0.1\": also at machines[0]\n" +
				"ERROR    line 5: machines[1].name: Duplicate value: \"a\": also at machines[0]\ninvalid: 2 errors, 0 warnings\n",
		},
		"simulated": {
			simHead + "tokenFile: /nowhere/token\nrouteBatch: -1\n", false, "FILE: CloudConfig of the provider sim\n" +
				"ERROR    line 6: routeBatch: Invalid value: -1: must be 0 to 100\n" +
				"WARNING  tokenFile: /nowhere/token: no such file or directory; it has to be readable where the manager runs\ninvalid: 1 error, 1 warning\n",
		},
		"cloud.conf": {
			conf, false, "FILE: cloud.conf of the provider openstack\nvalid: 0 errors, 0 warnings\n",
		},
		"cloud.conf, all errors": {
			"# of the cluster\n[Global]\nauth-url = keystone.example\nregion = R\npasword = hidden\n\n[LoadBalancer]\n" +
				"monitor-delay = soon\nuse-octavia = true\n[LoadBalancerClass \"dmz\"]\nfloating-subnet = ~(\n[Routes]\n", false,
			"FILE: cloud.conf of the provider openstack\n" +
				"ERROR    [Global].application-credential-id: Required value: " + noCredentials + "\n" +
				"ERROR    line 3: [Global].auth-url: Invalid value: must be a URL http://HOST or https://HOST, without a user in it\n" +
				"ERROR    line 5: [Global].pasword: Invalid value: unknown option; known here are auth-url, region, os-endpoint-type, ca-file, cert-file, " +
				"key-file, tls-insecure, username, user-id, password, tenant-id, tenant-name, domain-id, domain-name, tenant-domain-id, " +
				"tenant-domain-name, user-domain-id, user-domain-name, trust-id, trustee-id, trustee-password, application-credential-id, " +
				"application-credential-name, application-credential-secret, token, use-clouds, clouds-file, cloud\n" +
				"ERROR    line 8: [LoadBalancer].monitor-delay: Invalid value: \"soon\": must be a duration such as 5s or 1m, or a number of seconds\n" +
				"ERROR    line 11: [LoadBalancerClass \"dmz\"].floating-subnet: Invalid value: \"~(\": error parsing regexp: missing closing ): `(`\n" +
				"ERROR    line 12: [Routes]: Invalid value: unknown section; known are Global, Networking, LoadBalancer, LoadBalancerClass, Route, Metadata\n" +
				"WARNING  [LoadBalancer].use-octavia is ignored: Octavia is always used\n" +
				"invalid: 6 errors, 1 warning\n",
		},
		"cloud.conf with files elsewhere": {
			conf + "ca-file = /nowhere/ca.pem\n", false, "FILE: cloud.conf of the provider openstack\n" +
				"WARNING  [Global].ca-file: /nowhere/ca.pem: no such file or directory; it has to be readable where the manager runs\nvalid: 0 errors, 1 warning\n",
		},
		"cloud.conf with files that are missing": {
			"[Global]\nuse-clouds\nclouds-file=/nowhere/clouds.yaml\nkey-file=/nowhere/key\ncert-file=/nowhere/cert\n", true, "FILE: cloud.conf of the provider openstack\n" +
				"ERROR    [Global].cert-file: /nowhere/cert: no such file or directory\n" +
				"ERROR    [Global].clouds-file: /nowhere/clouds.yaml: no such file or directory\n" +
				"ERROR    [Global].key-file: /nowhere/key: no such file or directory\ninvalid: 3 errors, 0 warnings\n",
		},
		"cloud.conf with a mistake in the format": {
			"[Global]\n= x\n", false, "FILE: cloud.conf of the provider openstack\n" +
				"ERROR    (line:column): Invalid value: 2:1: expected section header or variable declaration\n" +
				"ERROR    [Global].auth-url: Required value: the URL of Keystone, such as https://keystone.example:5000/v3\n" +
				"ERROR    [Global].region: Required value: the name of the region, such as RegionOne\n" +
				"ERROR    [Global].application-credential-id: Required value: " + noCredentials + "\ninvalid: 4 errors, 0 warnings\n",
		},
		"a kind without a version": {
			"kind: MetalCloudConfig\n", false, "FILE: MetalCloudConfig of the provider metal\n" +
				"ERROR    apiVersion: Unsupported value: \"\": supported values: \"metal.mooring.dev/v1alpha1\"\ninvalid: 1 error, 0 warnings\n",
		},
		"of no provider": {
			"apiVersion: v1\nkind: ConfigMap\n", false,
			"FILE\nERROR    kind: ConfigMap of v1 is of no provider of this tool; known here: " + known + "\ninvalid: 1 error, 0 warnings\n",
		},
		"empty":    {"", false, "FILE\nERROR    kind: apiVersion and kind say what the file is; known here: " + known + "\ninvalid: 1 error, 0 warnings\n"},
		"not YAML": {"a: b: c", false, "FILE\nERROR    neither YAML nor JSON: error converting YAML to JSON: yaml: mapping values are not allowed in this context\ninvalid: 1 error, 0 warnings\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Examine([]byte(c.config), dir, "", c.needFiles).Text("FILE")
			if diff := cmp.Diff(c.want, replaced(got, dir)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
	if err := os.WriteFile(filepath.Join(dir, "md5"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if report := Examine([]byte(metalHead+bgp), dir, "", true); !report.Valid || len(report.Findings) > 0 {
		t.Errorf("with its file: %+v", report)
	}
}

func replaced(text, dir string) string { return strings.ReplaceAll(text, dir, "DIR") }
