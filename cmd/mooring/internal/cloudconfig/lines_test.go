package cloudconfig

import (
	"strings"
	"testing"
)

// Each finding has the line of its field, or of what lacks the field.
func TestLinesOfFindings(t *testing.T) {
	const text = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\npools:\n- name: P\n  addresses:\n  - 192.0.2.0/24\n  - x\nbgp:\n  peers: []\nother: 1\n"
	lines := map[string]int{}
	for _, finding := range Examine([]byte(text), t.TempDir(), "", false).Findings {
		lines[finding.Field] = finding.Line
	}
	for field, want := range map[string]int{"pools[0].name": 4, "pools[0].addresses[1]": 7, "bgp.peers": 9, "bgp.asn": 8, "other": 10} {
		if lines[field] != want {
			t.Errorf("%s is on line %d, want %d (all: %v)", field, lines[field], want, lines)
		}
	}
}

// The provider is asked for where the file does not say whose it is; one that is given decides.
func TestWhoseAConfigIs(t *testing.T) {
	const aws = "[Global]\nZone=eu-central-1a\nVPC=vpc-1\nKubernetesClusterID=blue\n"
	for name, test := range map[string]struct{ config, provider, whose, want string }{
		"sections that others have, too": {aws, "", "", "--cloud-provider"},
		"and it is openstack's":          {aws, "openstack", "openstack", "unknown option"},
		"another provider's":             {aws, "aws", "", "metal, openstack, sim"},
		"a kind of another provider":     {"apiVersion: sim.mooring.dev/v1alpha1\nkind: CloudConfig\n", "metal", "", "is of the provider sim"},
	} {
		report := Examine([]byte(test.config), t.TempDir(), test.provider, false)
		if report.Valid || report.Provider != test.whose || len(report.Findings) == 0 || !strings.Contains(report.Text(""), test.want) {
			t.Errorf("%s: %+v, want %q of the provider %q", name, report, test.want, test.whose)
		}
	}
}
