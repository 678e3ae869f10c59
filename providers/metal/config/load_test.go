package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// write writes files into a new folder and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// head begins a cloud config, and listHead a list of machines.
const (
	head     = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\n"
	listHead = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MachineList\n"
)

func TestLoad(t *testing.T) {
	dir := write(t, map[string]string{
		"config.yaml": head + `
inventory:
  defaults:
    region: north
    zone: nowhere
    labels: {row: "7", owner: us}
    bmc: {credentials: {username: admin, passwordFile: secrets/password}, caFile: ca.pem}
  machines:
  - name: n1
    systemUUID: 4C4C4544-0051-3510-8052-B4C04F4E3532
    addresses: [{address: 10.0.0.1}, {address: "FD00::1"}, {type: Hostname, address: n1}]
    bmc: {redfish: {endpoint: "https://10.0.1.1"}}
  paths: [racks, extra.yaml]
power: {interval: 20s, outOfService: {enabled: true}}
`,
		"racks/a.yaml": listHead + `
defaults: {zone: a, labels: {owner: them}, bmc: {credentials: {username: root, passwordFile: password}}}
machines:
- name: n2
  macAddresses: [AC-1F-6B-00-00-02]
  addresses: [{type: InternalIP, address: 10.0.0.2}]
  machineType: big
  bmc: {ipmi: {address: 10.0.1.2}}
- name: n3
  zone: b
  id: the-third
  addresses: [{address: 10.0.0.3}]
  bmc: {command: {argv: [/bin/power]}}
`,
		"racks/.hidden/b.yaml": "not: read",
		"racks/notes.txt":      "not: read",
		"extra.yaml":           `{"apiVersion":"metal.mooring.dev/v1alpha1","kind":"MachineList","machines":[{"name":"n4","addresses":[{"address":"10.0.0.4"}]}]}`,
	})
	config, err := Load(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"row": "7", "owner": "us"}
	rack := map[string]string{"row": "7", "owner": "them"}
	want := []Machine{
		{
			Name: "n1", ID: "4c4c4544-0051-3510-8052-b4c04f4e3532", IDFrom: IDFromSystemUUID, SystemUUID: "4c4c4544-0051-3510-8052-b4c04f4e3532",
			Addresses: []Address{{v1.NodeInternalIP, "10.0.0.1"}, {v1.NodeInternalIP, "fd00::1"}, {v1.NodeHostName, "n1"}},
			Region:    "north", Zone: "nowhere", Labels: labels, Origin: "inventory.machines[0]",
			BMC: &BMC{
				Redfish:     &Redfish{Endpoint: "https://10.0.1.1", Auth: RedfishSession, CAFile: filepath.Join(dir, "ca.pem")},
				Credentials: &Credentials{Username: "admin", PasswordFile: filepath.Join(dir, "secrets/password")},
			},
		},
		{
			Name: "n2", ID: "ac-1f-6b-00-00-02", IDFrom: IDFromMACAddress, MACAddresses: []string{"ac:1f:6b:00:00:02"},
			Addresses: []Address{{v1.NodeInternalIP, "10.0.0.2"}}, Region: "north", Zone: "a", MachineType: "big", Labels: rack,
			Origin: "racks/a.yaml: machines[0]",
			BMC: &BMC{
				IPMI:        &IPMI{Address: "10.0.1.2"},
				Credentials: &Credentials{Username: "root", PasswordFile: filepath.Join(dir, "racks/password")},
			},
		},
		{
			Name: "n3", ID: "the-third", IDFrom: IDExplicit, Addresses: []Address{{v1.NodeInternalIP, "10.0.0.3"}},
			Region: "north", Zone: "b", Labels: rack, Origin: "racks/a.yaml: machines[1]",
			BMC: &BMC{Command: &Command{Argv: []string{"/bin/power"}}},
		},
		{
			Name: "n4", ID: "n4", IDFrom: IDFromName, Addresses: []Address{{v1.NodeInternalIP, "10.0.0.4"}},
			Region: "north", Zone: "nowhere", Labels: labels, Origin: "extra.yaml: machines[0]",
		},
	}
	if diff := cmp.Diff(want, config.Inventory.Machines); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	wantPower := Power{
		Interval: metav1.Duration{Duration: 20 * time.Second}, Timeout: metav1.Duration{Duration: DefaultPowerTimeout},
		Concurrency: DefaultPowerConcurrency, StaleAfter: DefaultPowerStaleAfter,
		OutOfService: OutOfService{Enabled: true, After: metav1.Duration{Duration: DefaultOutOfServiceAfter}},
	}
	if diff := cmp.Diff(wantPower, config.Power); diff != "" {
		t.Errorf("power (-want +got):\n%s", diff)
	}
	if id := config.Inventory.Machines[1].ProviderID(); id != "metal://ac-1f-6b-00-00-02" {
		t.Errorf("provider ID %s", id)
	}
}

func TestReadIsRelativeToADir(t *testing.T) {
	dir := write(t, map[string]string{"list.yaml": listHead + "machines: [{name: n1, addresses: [{address: 10.0.0.1}]}]"})
	config, err := Read(strings.NewReader(head+"inventory: {paths: [list.yaml]}"), dir)
	if err != nil || len(config.Inventory.Machines) != 1 {
		t.Errorf("read %v, %v", config, err)
	}
}

func TestErrorsAllAtOnce(t *testing.T) {
	const wrongConfig = `
apiVersion: v1
kind: MetalCloudConfig
kind: Other
invetory: {}
inventory:
  defaults: {zone: "not valid", bmc: {credentials: {username: a, usernameFile: b}}}
  paths: [racks, missing.yaml, empty]
  machines:
  - addresses: [{address: 10.0.0.300}, {type: Tunnel, address: x}, {address: 127.0.0.1}]
  - {name: N1, id: a/b, systemUUID: 123, macAddresses: [x], zone: 5, addresses: [{type: ExternalIP, address: 1.2.3.4}], labels: {"a b": c}}
  - {name: n2, systemUUID: 00000000-0000-0000-0000-000000000000, addresses: [{address: 10.0.0.2}, {address: 10.0.0.2}]}
  - {name: n3, systemUUID: soon, addresses: [{address: 10.0.0.3}], bmc: {redfish: {endpoint: "http://x"}, ipmi: {address: "y:0", cipherSuite: 2}}}
  - {name: n4, addresses: [{address: 10.0.0.4}], bmc: {redfish: {endpoint: "https://me:secret@x", password: hunter2}}}
  - {name: n5, addresses: [{address: 10.0.0.5}], bmc: {command: {argv: [power], timeout: 1h}}}
power: {interval: 1ms, timeout: soon, concurrency: -1, staleAfter: 1}
`
	dir := write(t, map[string]string{
		"config.yaml":   wrongConfig,
		"racks/a.yaml":  listHead + "machines:\n- {name: n5, addresses: [{address: 10.0.0.5}], color: red}\n",
		"racks/b.yaml":  "machines: [\n",
		"empty/.keep":   "",
		"empty/readme":  "",
		"racks/sub/x.y": "",
	})
	const machineFields = "addresses, bmc, id, labels, macAddresses, machineType, maintenance, name, region, systemUUID, zone"
	want := []string{
		`kind: Duplicate value: "Other"`,
		`invetory: Invalid value: unknown field; known here: announcement, apiVersion, bgp, inventory, kind, l2, nodeGroupLease, nodeGroups, pools, power`,
		`inventory.machines[1].systemUUID: Invalid value: "123": must be a string, not an integer`,
		`inventory.machines[1].zone: Invalid value: "5": must be a string, not an integer`,
		`inventory.machines[4].bmc.redfish.password: Invalid value: unknown field; known here: auth, caFile, endpoint, insecureSkipVerify, legacyTLS, systemID`,
		`power.timeout: Invalid value: "soon": time: invalid duration "soon"`,
		`apiVersion: Unsupported value: "v1": supported values: "metal.mooring.dev/v1alpha1"`,
		`inventory.defaults.zone: Invalid value: "not valid": a valid label must`,
		`inventory.defaults.bmc.credentials: Invalid value: must have exactly one of username and usernameFile`,
		`inventory.defaults.bmc.credentials.passwordFile: Required value: the file with the password`,
		`inventory.machines[0].name: Required value: the name of the machine's node`,
		`inventory.machines[0].addresses[0].address: Invalid value: "10.0.0.300": must be the IPv4 or IPv6 address of one host`,
		`inventory.machines[0].addresses[1].type: Unsupported value: "Tunnel"`,
		`inventory.machines[0].addresses[2].address: Invalid value: "127.0.0.1"`,
		`inventory.machines[1].name: Invalid value: "N1": a lowercase RFC 1123 subdomain`,
		`inventory.machines[1].id: Invalid value: "a/b": must be up to 253 letters`,
		`inventory.machines[1].macAddresses[0]: Invalid value: "x": must be a MAC address`,
		`inventory.machines[1].labels: Invalid value: "a b"`,
		`inventory.machines[1].addresses: Required value: at least one address of type InternalIP`,
		`inventory.machines[2].systemUUID: Invalid value: "00000000-0000-0000-0000-000000000000": is what firmware says`,
		`inventory.machines[2].addresses[1]: Duplicate value: "InternalIP 10.0.0.2"`,
		`inventory.machines[3].systemUUID: Invalid value: "soon": must be a UUID`,
		`inventory.machines[3].bmc: Invalid value: must have exactly one of redfish, ipmi and command`,
		`inventory.machines[3].bmc.redfish.endpoint: Invalid value: "http://x": must begin with https`,
		`inventory.machines[3].bmc.ipmi.address: Invalid value: "y:0": must have a port`,
		`inventory.machines[3].bmc.ipmi.cipherSuite: Invalid value: 2: must be 3 or 17`,
		`inventory.machines[4].bmc.redfish.endpoint: Invalid value: "https://me:xxxxx@x": must not contain credentials`,
		`inventory.machines[5].bmc.command.argv[0]: Invalid value: "power": must be an absolute path`,
		`inventory.machines[5].bmc.command.timeout: Invalid value: "1h0m0s": must be between`,
		`racks/a.yaml: machines[0].color: Invalid value: unknown field; known here: ` + machineFields,
		`racks/b.yaml: (document): Invalid value: yaml: line 1: did not find expected node content`,
		fmt.Sprintf(`inventory.paths[1]: Invalid value: "missing.yaml": open %s/missing.yaml: no such file or directory`, dir),
		`inventory.paths[2]: Invalid value: "empty": there is no file *.yaml, *.yml or *.json in this folder`,
		`racks/a.yaml: machines[0].name: Duplicate value: "n5": also at inventory.machines[5]`,
		`racks/a.yaml: machines[0].addresses: Duplicate value: "10.0.0.5": also at inventory.machines[5]`,
		`power.interval: Invalid value: "1ms": must be between 1s and 1h0m0s`,
		`power.concurrency: Invalid value: -1: must be between 1 and 1000`,
		`power.staleAfter: Invalid value: 1: must be between 2 and 100`,
	}
	_, err := Load(filepath.Join(dir, "config.yaml"))
	if err == nil {
		t.Fatal("the config was accepted")
	}
	message := err.Error()
	for _, line := range want {
		if !strings.Contains(message, line) {
			t.Errorf("the error does not say %s", line)
		}
	}
	if got := strings.Count(message, " value: "); got != len(want) {
		t.Errorf("%d errors, want %d", got, len(want))
	}
	if strings.Contains(message, "hunter2") || strings.Contains(message, "secret") {
		t.Error("the error repeats a password")
	}
	if t.Failed() {
		t.Log(strings.ReplaceAll(message, ", ", ",\n"))
	}
}

// Two machines never share what a node is found by, nor a provider ID, however each came by it.
func TestClaimsAreUnique(t *testing.T) {
	machine := func(i int, fields string) string {
		return fmt.Sprintf("{name: n%d, addresses: [{address: 10.0.0.%d}], %s}", i, i, fields)
	}
	for name, test := range map[string]struct{ first, second, want string }{
		"uuid in the other order of bytes": {
			`systemUUID: 00112233-4455-6677-8899-aabbccddeeff`, `systemUUID: 33221100-5544-7766-8899-aabbccddeeff`,
			`inventory.machines[1].systemUUID: Duplicate value: "00112233-4455-6677-8899-aabbccddeeff": also at inventory.machines[0]`,
		},
		"mac address": {
			`macAddresses: ["ac:1f:6b:00:00:01"]`, `macAddresses: ["ac:1f:6b:00:00:02", AC-1F-6B-00-00-01]`,
			`inventory.machines[1].macAddresses: Duplicate value: "ac:1f:6b:00:00:01": also at inventory.machines[0]`,
		},
		"an id that another one has by its name": {
			`zone: a`, `id: n1`, `inventory.machines[1].id: Duplicate value: "n1": also at inventory.machines[0]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := head + "inventory:\n  machines:\n  - " + machine(1, test.first) + "\n  - " + machine(2, test.second) + "\n"
			_, err := Read(strings.NewReader(list), "")
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Count(err.Error(), " value: ") != 1 {
				t.Errorf("error: %v\nwant:  %s", err, test.want)
			}
		})
	}
}

// A provider ID stays when the name, the addresses and what else is known of a machine change, but for one that has only a name.
func TestProviderIDsSurviveRenames(t *testing.T) {
	for identity, want := range map[string]string{
		`id: one`: "metal://one",
		`systemUUID: 00112233-4455-6677-8899-AABBCCDDEEFF`:                                          "metal://00112233-4455-6677-8899-aabbccddeeff",
		`systemUUID: 00112233-4455-6677-8899-AABBCCDDEEFF, macAddresses: [ac-1f-6b-00-00-0A]`:       "metal://00112233-4455-6677-8899-aabbccddeeff",
		`macAddresses: [ac-1f-6b-00-00-0A, "ac:1f:6b:00:00:01"]`:                                    "metal://ac-1f-6b-00-00-0a",
		`id: one, systemUUID: 00112233-4455-6677-8899-AABBCCDDEEFF, macAddresses: [AC1F.6B00.000A]`: "metal://one",
	} {
		for _, name := range []string{"n1", "n2"} {
			config, err := Read(strings.NewReader(fleet(name+" "+identity)), "")
			if err != nil {
				t.Fatal(err)
			}
			if got := config.Inventory.Machines[0].ProviderID(); got != want {
				t.Errorf("%s named %s has provider ID %s, want %s", identity, name, got, want)
			}
		}
	}
}

func TestOpenNeedsAFile(t *testing.T) {
	if _, err := Open(nil); err == nil || !strings.Contains(err.Error(), "--cloud-config") {
		t.Errorf("error is %v, want one that names the flag", err)
	}
}
