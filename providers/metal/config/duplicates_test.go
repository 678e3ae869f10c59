package config

import (
	"fmt"
	"strings"
	"testing"
)

// inventoryOf returns a config with machines n1, n2 and so on, which have these fields.
func inventoryOf(machines ...string) string {
	text := head + "inventory:\n  defaults: {bmc: {credentials: {username: u, passwordFile: p}}}\n  machines:\n"
	for i, fields := range machines {
		text += fmt.Sprintf("  - {name: n%d, addresses: [{address: 10.0.0.%d}], %s}\n", i+1, i+1, fields)
	}
	return text
}

// Two machines never have one BMC: one line was copied, and the controller would report the power of one machine for the other.
func TestBMCsAreUnique(t *testing.T) {
	const firstUUID = "systemUUID: 00112233-4455-6677-8899-aabbccddeeff, "
	const otherUUID = "systemUUID: 30112233-4455-6677-8899-aabbccddeeff, "
	redfish := func(fields string) string { return "bmc: {redfish: {" + fields + "}}" }
	ipmi := func(address string) string { return "bmc: {ipmi: {address: " + address + "}}" }
	for name, test := range map[string]struct {
		machines []string
		want     []string
	}{
		"the same service": {
			[]string{firstUUID + redfish(`endpoint: "https://10.0.9.1"`), otherUUID + redfish(`endpoint: "https://10.0.9.1"`)},
			[]string{`inventory.machines[1].bmc.redfish: Invalid value: "https://10.0.9.1:443": machine n2 has the same BMC as machine n1 (inventory.machines[0])`},
		},
		"the same service, spelled otherwise": {
			[]string{redfish(`endpoint: "https://BMC-1.example/"`), redfish(`endpoint: "https://bmc-1.example.:443"`)},
			[]string{"machine n2 has the same BMC as machine n1"},
		},
		"the same system": {
			[]string{redfish(`endpoint: "https://c", systemID: a`), redfish(`endpoint: "https://c", systemID: b`), redfish(`endpoint: "https://c", systemID: a`)},
			[]string{"machine n3 has the same BMC as machine n1"},
		},
		"a system of its own, beside any": {
			[]string{redfish(`endpoint: "https://c", systemID: a`), redfish(`endpoint: "https://c"`)},
			[]string{"machine n2 has the same BMC as machine n1"},
		},
		"systems of their own": {[]string{redfish(`endpoint: "https://c", systemID: a`), redfish(`endpoint: "https://c", systemID: b`)}, nil},
		"the same by IPMI, three times": {
			[]string{ipmi("10.0.9.1"), ipmi(`"10.0.9.1:623"`), ipmi(`"[::ffff:10.0.9.1]:623"`)},
			[]string{"machine n2 has the same BMC as machine n1", "machine n3 has the same BMC as machine n1"},
		},
		"another port":  {[]string{ipmi("10.0.9.1"), ipmi(`"10.0.9.1:6230"`)}, nil},
		"one command":   {[]string{"bmc: {command: {argv: [/bin/power]}}", "bmc: {command: {argv: [/bin/power]}}"}, nil},
		"another place": {[]string{redfish(`endpoint: "https://a"`), redfish(`endpoint: "https://b"`)}, nil},
		"a path of its own": {
			[]string{redfish(`endpoint: "https://proxy/a"`), redfish(`endpoint: "https://proxy/b"`)}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(inventoryOf(test.machines...)), "")
			refused(t, err, test.want)
		})
	}
}

// refused holds an error of a config to be exactly these.
func refused(t *testing.T, err error, want []string) {
	t.Helper()
	message := fmt.Sprint(err)
	for _, part := range want {
		if !strings.Contains(message, part) {
			t.Errorf("the error does not say %s", part)
		}
	}
	if got := strings.Count(message, " value: "); got != len(want) || (err == nil) != (len(want) == 0) {
		t.Errorf("%d errors, want %d: %v", got, len(want), err)
	}
}

// A pool that holds the address of a machine, of its management controller or of a router is refused: a Service would take what is
// sent to it.
func TestPoolsHoldNoAddressInUse(t *testing.T) {
	inventory := inventoryOf(
		`bmc: {ipmi: {address: "10.0.9.1:623"}}`, `bmc: {redfish: {endpoint: "https://10.0.9.2"}}`, "zone: a", "zone: b",
	) + "bgp: {asn: 64512, peers: [{name: tor, address: 10.0.1.254, asn: 64512, sourceAddress: 10.0.1.7}, {name: six, address: \"fd00::254\", asn: 64512}]}\n"
	for name, test := range map[string]struct {
		addresses string
		want      []string
	}{
		"of no machine":      {"10.0.2.0/24, 10.0.1.8-10.0.1.253", nil},
		"those of machines":  {"10.0.0.0/24", []string{`pools[0].addresses[0]: Invalid value: "10.0.0.0/24": holds 10.0.0.1 of machine n1, 10.0.0.2 of machine n2, 10.0.0.3 of machine n3 and 1 more`}},
		"one machine":        {"10.0.2.0/24, 10.0.0.4", []string{`pools[0].addresses[1]: Invalid value: "10.0.0.4": holds 10.0.0.4 of machine n4;`}},
		"a router":           {"10.0.1.250-10.0.1.255", []string{"holds 10.0.1.254 of BGP peer tor;"}},
		"a router over IPv6": {`"fd00::/64"`, []string{"holds fd00::254 of BGP peer six;"}},
		"ours to a router":   {"10.0.1.7", []string{"holds 10.0.1.7 of the speaker toward BGP peer tor;"}},
		"controllers":        {"10.0.9.0/28", []string{"holds 10.0.9.1 of the BMC of machine n1, 10.0.9.2 of the BMC of machine n2;"}},
		"several ranges": {"10.0.0.1, 10.0.1.254", []string{
			"pools[0].addresses[0]: Invalid value", "pools[0].addresses[1]: Invalid value",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(inventory+"pools: [{name: p, addresses: ["+test.addresses+"]}]\n"), "")
			refused(t, err, test.want)
		})
	}
}

// Fencing is validated only where it is enabled, all at once, and is filled in then.
func TestFence(t *testing.T) {
	for name, test := range map[string]struct {
		power string
		want  []string
	}{
		"defaults":        {"outOfService: {enabled: true, fence: {enabled: true}}", nil},
		"disabled":        {"outOfService: {fence: {maxUnknownPercent: 300}}", nil},
		"without a taint": {"outOfService: {fence: {enabled: true}}", []string{"power.outOfService.fence.enabled: Invalid value: true: needs outOfService.enabled"}},
		"all at once": {"outOfService: {enabled: true, fence: {enabled: true, after: 1s, interval: 1s, timeout: 1h, maxUnknownPercent: 100}}", []string{
			"power.outOfService.fence.after: ", "power.outOfService.fence.interval: ", "power.outOfService.fence.timeout: ",
			"power.outOfService.fence.maxUnknownPercent: Invalid value: 100: must be between 1 and 99",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := Read(strings.NewReader(head+"power: {"+test.power+"}\n"), "")
			refused(t, err, test.want)
			if fence := (Fence{}); name == "defaults" && err == nil {
				fence.Enabled = true
				fence.setDefaults()
				if loaded.Power.OutOfService.Fence != fence || fence.After.Duration != DefaultFenceAfter || fence.MaxUnknownPercent != 49 {
					t.Errorf("%+v", loaded.Power.OutOfService.Fence)
				}
			}
		})
	}
	_, err := Read(strings.NewReader(inventoryOf(`bmc: {powerOffCredentials: {username: u}, command: {argv: [/a], powerOff: [b]}, systemUUID: x}`)), "")
	refused(t, err, []string{"bmc.powerOffCredentials.passwordFile: Required", `bmc.command.powerOff[0]: Invalid value: "b": must be an absolute path`, "bmc.systemUUID: "})
}
