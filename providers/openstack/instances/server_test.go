package instances

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

const id = "7b9cf879-7146-417c-abfd-cb4272f0c935"

func TestProviderIDs(t *testing.T) {
	plain, regional := naming{region: "east"}, naming{region: "east", regional: true}
	if got := plain.providerID(id) + " " + regional.providerID(id); got != "openstack:///"+id+" openstack://east/"+id {
		t.Error(got)
	}
	for providerID, accepted := range map[string]bool{
		"openstack:///" + id: true, "openstack://east/" + id: true, "/" + id: true, "openstack://west/" + id: false, "aws:///a/" + id: false,
		"openstack:///": false, "openstack:///../x": false, id: false, "": false, "openstack:///" + id + "/": false,
	} {
		got, err := plain.parse(providerID)
		if accepted != (err == nil) || accepted && got != id || !accepted && !provider.IsTerminal(err) {
			t.Errorf("%q: %q, %v", providerID, got, err)
		}
	}
}

func TestStates(t *testing.T) {
	for status, want := range map[string]provider.InstanceState{
		"ACTIVE": provider.InstanceRunning, "BUILD": provider.InstanceRunning, "REBOOT": provider.InstanceRunning, "SHUTOFF": provider.InstanceStopped,
		"SUSPENDED": provider.InstanceStateUnknown, "PAUSED": provider.InstanceStateUnknown, "SHELVED": provider.InstanceStateUnknown,
		"SHELVED_OFFLOADED": provider.InstanceStateUnknown, "ERROR": provider.InstanceStateUnknown, "NEW_ONE": provider.InstanceStateUnknown,
	} {
		if got := stateOf(server{Status: status}); got != want || deleted(server{Status: status}) {
			t.Errorf("%s is %s, want %s", status, got, want)
		}
	}
	for _, status := range []string{"DELETED", "SOFT_DELETED"} {
		if !deleted(server{Status: status}) {
			t.Errorf("%s exists", status)
		}
	}
}

func TestLabels(t *testing.T) {
	for name, want := range map[string]string{
		"m1.small": "m1.small", "my  zone!": "my-zone", "-a_": "a", "": "", strings.Repeat("x", 62) + ".y": strings.Repeat("x", 62), "ü": "",
	} {
		if got := label(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

// decoded reads what a service answers.
func decoded[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// dualStack is a server on two networks, with a floating IP: as Nova and Neutron show it.
const dualStack = `{"id": "s", "name": "Worker-1", "status": "ACTIVE", "flavor": {"original_name": "m1.small"}, "accessIPv4": "", "accessIPv6": "",
	"OS-EXT-AZ:availability_zone": "az a", "metadata": {}, "addresses": {
	"nodes": [{"addr": "fd00::5", "version": 6, "OS-EXT-IPS:type": "fixed"}, {"addr": "10.0.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"},
		{"addr": "203.0.113.7", "version": 4, "OS-EXT-IPS:type": "floating"}],
	"backup": [{"addr": "172.16.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"}]}}`

const dualStackPorts = `[
	{"id": "p2", "device_id": "s", "network_id": "n2", "status": "ACTIVE", "fixed_ips": [{"ip_address": "172.16.0.5"}]},
	{"id": "p1", "device_id": "s", "network_id": "n1", "status": "ACTIVE", "fixed_ips": [{"ip_address": "fd00::5"}, {"ip_address": "10.0.0.5"}]},
	{"id": "p0", "device_id": "other", "network_id": "n1", "status": "ACTIVE", "fixed_ips": [{"ip_address": "10.0.0.6"}]}]`

func TestAddresses(t *testing.T) {
	down := strings.ReplaceAll(dualStackPorts, "ACTIVE", "DOWN")
	for name, test := range map[string]struct {
		server, ports string
		networking    config.Networking
		want          string
	}{
		"ports by their IDs, then networks by their names": {dualStack, dualStackPorts, config.Networking{},
			"InternalIP 10.0.0.5, InternalIP fd00::5, InternalIP 172.16.0.5, ExternalIP 203.0.113.7"},
		"ports that are down": {dualStack, down, config.Networking{},
			"InternalIP 172.16.0.5, InternalIP 10.0.0.5, ExternalIP 203.0.113.7, InternalIP fd00::5"},
		"no ports": {dualStack, "[]", config.Networking{},
			"InternalIP 172.16.0.5, InternalIP 10.0.0.5, ExternalIP 203.0.113.7, InternalIP fd00::5"},
		"without IPv6": {dualStack, dualStackPorts, config.Networking{IPv6SupportDisabled: true},
			"InternalIP 10.0.0.5, InternalIP 172.16.0.5, ExternalIP 203.0.113.7"},
		"a public network": {dualStack, dualStackPorts, config.Networking{PublicNetworkName: []string{"backup"}},
			"InternalIP 10.0.0.5, InternalIP fd00::5, ExternalIP 172.16.0.5, ExternalIP 203.0.113.7"},
		"an internal network": {dualStack, dualStackPorts, config.Networking{InternalNetworkName: []string{"nodes"}},
			"InternalIP 10.0.0.5, InternalIP fd00::5, ExternalIP 203.0.113.7"},
		"an order": {dualStack, dualStackPorts, config.Networking{AddressSortOrder: []netip.Prefix{
			netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("fd00::/8")}},
			"ExternalIP 203.0.113.7, InternalIP fd00::5, InternalIP 10.0.0.5, InternalIP 172.16.0.5"},
		"an order within a CIDR": {dualStack, dualStackPorts, config.Networking{AddressSortOrder: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}},
			"InternalIP 10.0.0.5, InternalIP 172.16.0.5, ExternalIP 203.0.113.7, InternalIP fd00::5"},
		"access addresses and a host name": {
			strings.Replace(strings.Replace(dualStack, `"accessIPv4": ""`, `"accessIPv4": "198.51.100.1"`, 1), `"metadata": {}`, `"metadata": {"hostname": "h"}`, 1),
			"[]", config.Networking{},
			"ExternalIP 198.51.100.1, Hostname h, InternalIP 172.16.0.5, InternalIP 10.0.0.5, ExternalIP 203.0.113.7, InternalIP fd00::5"},
		"what is no address": {strings.Replace(dualStack, "10.0.0.5", "ten", 1), "[]", config.Networking{},
			"InternalIP 172.16.0.5, ExternalIP 203.0.113.7, InternalIP fd00::5"},
	} {
		var got []string
		for _, address := range addressesOf(decoded[server](t, test.server), newPorts(decoded[[]port](t, test.ports)), test.networking) {
			got = append(got, string(address.Type)+" "+address.Address)
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, ", "), test.want)
		}
	}
}

// A port of a trunk has addresses that Nova does not know of.
func TestAddressesOfTrunks(t *testing.T) {
	known := newPorts(decoded[[]port](t, `[
		{"id": "p1", "device_id": "s", "network_id": "n1", "status": "ACTIVE", "fixed_ips": [{"ip_address": "10.0.0.5"}], "trunk_details": {"sub_ports": [{"port_id": "p2"}, {"port_id": "gone"}]}},
		{"id": "p2", "device_id": "trunk", "network_id": "n2", "status": "ACTIVE", "fixed_ips": [{"ip_address": "172.16.0.5"}]}]`))
	known.networks["n2"] = "vlan"
	got := addressesOf(server{ID: "s"}, known, config.Networking{PublicNetworkName: []string{"vlan"}})
	want := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.5"}, {Type: v1.NodeExternalIP, Address: "172.16.0.5"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestInstanceOf(t *testing.T) {
	got := naming{region: "east"}.instanceOf(decoded[server](t, dualStack), newPorts(nil))
	if got.NodeName != "worker-1" || got.InstanceType != "m1.small" || got.Zone != "az-a" || got.Region != "east" || got.ProviderID != "openstack:///s" {
		t.Errorf("%+v", got)
	}
}
