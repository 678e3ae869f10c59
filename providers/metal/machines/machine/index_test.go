package machine

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

const inventory = `
apiVersion: metal.mooring.dev/v1alpha1
kind: MetalCloudConfig
inventory:
  machines:
  - {name: n1, id: one, addresses: [{address: 10.0.0.1}, {address: "fd00::1"}, {type: ExternalIP, address: 192.0.2.1}]}
  - {name: n2, systemUUID: 00112233-4455-6677-8899-aabbccddeeff, addresses: [{address: 10.0.0.2}]}
  - {name: n3, macAddresses: ["ac:1f:6b:00:00:03", "ac:1f:6b:00:00:33"], addresses: [{address: 10.0.0.3}]}
  - {name: n4, addresses: [{address: 10.0.0.4}]}
`

// loaded is an inventory as it is loaded from a file.
func loaded(t *testing.T, text string) []config.Machine {
	t.Helper()
	loaded, err := config.Read(strings.NewReader(text), "")
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Inventory.Machines
}

// node builds a node of what "name=n1 id=metal://one uuid=... ip=10.0.0.1 provided=10.0.0.1,fd00::1 external=192.0.2.1" says.
func node(said string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "unnamed", Annotations: map[string]string{}}}
	for part := range strings.FieldsSeq(said) {
		switch key, value, _ := strings.Cut(part, "="); key {
		case "name":
			n.Name = value
		case "id":
			n.Spec.ProviderID = value
		case "uuid":
			n.Status.NodeInfo.SystemUUID = value
		case "ip":
			n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: value})
		case "external":
			n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeExternalIP, Address: value})
		case "provided":
			n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr] = value
		}
	}
	return n
}

func TestFind(t *testing.T) {
	index := NewIndex(loaded(t, inventory))
	for name, test := range map[string]struct{ node, want string }{
		"by name":                            {"name=n1", "n1"},
		"by provider ID":                     {"id=metal://one", "n1"},
		"by provider ID, whatever the rest":  {"id=metal://one name=n2 ip=10.0.0.3", "n1"},
		"by provider ID of a UUID":           {"id=metal://00112233-4455-6677-8899-aabbccddeeff", "n2"},
		"by provider ID of a MAC address":    {"id=metal://ac-1f-6b-00-00-03", "n3"},
		"by system UUID":                     {"uuid=00112233-4455-6677-8899-AABBCCDDEEFF", "n2"},
		"by system UUID, other byte order":   {"uuid=33221100-5544-7766-8899-aabbccddeeff", "n2"},
		"by MAC address":                     {"uuid=00000000-0000-0000-0000-ac1f6b000003", "n3"},
		"by another MAC address":             {"uuid=11111111-2222-3333-4444-AC1F6B000033", "n3"},
		"by address":                         {"ip=10.0.0.4", "n4"},
		"by the address of its kubelet":      {"provided=10.0.0.9,fd00:0::1", "n1"},
		"by all of them":                     {"name=n2 uuid=00112233-4455-6677-8899-aabbccddeeff ip=10.0.0.2 provided=10.0.0.2", "n2"},
		"a UUID of no meaning":               {"name=n2 uuid=00000000-0000-0000-0000-000000000000", "n2"},
		"a UUID that is none":                {"name=n2 uuid=unknown", "n2"},
		"unknown":                            {"name=n9 ip=10.0.0.9", "not found"},
		"an external address finds nothing":  {"external=192.0.2.1", "not found"},
		"unknown ID, whatever the rest":      {"id=metal://two name=n1", "not found"},
		"the ID is not the name":             {"id=metal://n1", "not found"},
		"foreign":                            {"id=aws:///zone/i-1 name=n1", "terminal"},
		"no ID":                              {"id=metal:// name=n1", "terminal"},
		"name of one, address of another":    {"name=n1 ip=10.0.0.4", "conflict n4 n1"},
		"name of one, UUID of another":       {"name=n1 uuid=00112233-4455-6677-8899-aabbccddeeff", "conflict n2 n1"},
		"addresses of two":                   {"ip=10.0.0.3 provided=10.0.0.4", "conflict n3 n4"},
		"name of one, UUID of no one":        {"name=n1 uuid=20112233-4455-6677-8899-aabbccddeeff", "n1"},
		"its name, but not its UUID":         {"name=n2 uuid=20112233-4455-6677-8899-aabbccddeeff", "conflict n2"},
		"its address, but not its UUID":      {"ip=10.0.0.2 uuid=20112233-4455-6677-8899-aabbccddeeff", "conflict n2"},
		"name of one, MAC address of others": {"name=n1 uuid=00000000-0000-0000-0000-ac1f6b000003", "conflict n3 n1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answer(index.Find(node(test.node))); got != test.want {
				t.Errorf("found %s, want %s", got, test.want)
			}
		})
	}
}

// answer is what Find says, as text.
func answer(machine *config.Machine, err error) string {
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict):
		text := "conflict"
		for _, match := range conflict.Matches {
			text += " " + match.Machine.Name
		}
		return text
	case errors.Is(err, provider.ErrInstanceNotFound):
		return "not found"
	case provider.IsTerminal(err):
		return "terminal"
	case err != nil:
		return err.Error()
	default:
		return machine.Name
	}
}

func TestConflictsNameBothMachines(t *testing.T) {
	_, err := NewIndex(loaded(t, inventory)).Find(node("name=n2 ip=10.0.0.2 uuid=20112233-4455-6677-8899-aabbccddeeff provided=10.0.0.4"))
	const want = "node n2 does not fit one machine: it may be n2 (inventory.machines[1], by its name and address 10.0.0.2), " +
		"but its system UUID is 20112233-4455-6677-8899-aabbccddeeff, not 00112233-4455-6677-8899-aabbccddeeff, " +
		"or n4 (inventory.machines[3], by its address 10.0.0.4)"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v\nwant     %s", err, want)
	}
}

func TestNodeNames(t *testing.T) {
	index := NewIndex(loaded(t, inventory))
	const uuid1, uuid2 = "00112233-4455-6677-8899-aabbccddeeff", "20112233-4455-6677-8899-aabbccddeeff"
	for name, test := range map[string]struct {
		nodes []string
		want  map[string]types.NodeName // beside the machines' own names
	}{
		"no nodes":                         {nil, nil},
		"their own names":                  {[]string{"name=n1", "name=n2 uuid=" + uuid1}, nil},
		"found by UUID and address":        {[]string{"name=a uuid=" + uuid1, "name=b ip=10.0.0.4"}, map[string]types.NodeName{uuid1: "a", "n4": "b"}},
		"initialized already":              {[]string{"name=a uuid=" + uuid1 + " id=metal://" + uuid1}, nil},
		"its own name before another":      {[]string{"name=a ip=10.0.0.4", "name=n4"}, nil},
		"the first of two others":          {[]string{"name=b ip=10.0.0.4", "name=a ip=10.0.0.4"}, map[string]types.NodeName{"n4": "a"}},
		"ambiguous for both":               {[]string{"name=a uuid=" + uuid1 + " ip=10.0.0.4"}, map[string]types.NodeName{uuid1: "a", "n4": "a"}},
		"a name and a UUID that differ":    {[]string{"name=n1 uuid=" + uuid1}, map[string]types.NodeName{uuid1: "n1"}},
		"an impostor":                      {[]string{"name=n2 uuid=" + uuid2}, map[string]types.NodeName{uuid1: ""}},
		"an impostor, and the machine too": {[]string{"name=n2 uuid=" + uuid2, "name=a uuid=" + uuid1}, map[string]types.NodeName{uuid1: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]types.NodeName{}
			maps.Copy(want, test.want)
			for range 2 { // the order of nodes does not matter
				var nodes []*v1.Node
				for _, said := range test.nodes {
					nodes = append(nodes, node(said))
				}
				if diff := cmp.Diff(want, index.NodeNames(nodes)); diff != "" {
					t.Errorf("names (-want +got):\n%s", diff)
				}
				slices.Reverse(test.nodes)
			}
		})
	}
}

func TestMachinesAreInOrder(t *testing.T) {
	var ids []string
	index := NewIndex(loaded(t, inventory))
	for _, machine := range index.Machines() {
		ids = append(ids, machine.ID)
		if got, ok := index.Get(machine.ID); !ok || got != machine {
			t.Errorf("Get(%s) returned %v", machine.ID, got)
		}
	}
	if len(ids) != 4 || !slices.IsSorted(ids) {
		t.Errorf("IDs %q", ids)
	}
}
