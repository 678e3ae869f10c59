package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// drawnMachines draws an inventory from few values, so machines and nodes meet. What is drawn may not load; then there is none.
func drawnMachines(t *rapid.T) []config.Machine {
	var text strings.Builder
	text.WriteString("apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\ninventory:\n  machines:\n")
	for i, number := range rapid.SliceOfNDistinct(rapid.IntRange(1, 6), 1, 5, rapid.ID[int]).Draw(t, "machines") {
		fmt.Fprintf(&text, "  - {name: n%d, addresses: [{address: 10.0.0.%d}]", number, 10+i)
		if rapid.Bool().Draw(t, "has id") {
			fmt.Fprintf(&text, ", id: id%d", number)
		}
		if rapid.Bool().Draw(t, "has uuid") {
			fmt.Fprintf(&text, ", systemUUID: %s", drawnUUID(number))
		}
		if rapid.Bool().Draw(t, "has mac") {
			fmt.Fprintf(&text, `, macAddresses: ["ac:1f:6b:00:00:%02d"]`, number)
		}
		text.WriteString("}\n")
	}
	loaded, err := config.Read(strings.NewReader(text.String()), "")
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return loaded.Inventory.Machines
}

func drawnUUID(number int) string {
	return fmt.Sprintf("0%d010203-0405-0607-0809-ac1f6b0000%02d", number, number)
}

func drawnNode(t *rapid.T) *v1.Node {
	said := "name=" + rapid.SampledFrom([]string{"n1", "n2", "n3", "n4", "other"}).Draw(t, "name")
	if number := rapid.IntRange(-8, 8).Draw(t, "uuid"); number > 0 {
		said += " uuid=" + drawnUUID(number)
	}
	if number := rapid.IntRange(0, 16).Draw(t, "address"); number > 0 {
		said += fmt.Sprintf(" ip=10.0.0.%d", number)
	}
	if id := rapid.SampledFrom([]string{"", "", "", "metal://id1", "metal://n2", "metal://" + drawnUUID(3), "other://n1"}).Draw(t, "id"); id != "" {
		said += " id=" + id
	}
	return node(said)
}

// plainly finds a node's machine as one would with a pencil: machine by machine.
func plainly(machines []config.Machine, node *v1.Node) string {
	if node.Spec.ProviderID != "" {
		for _, machine := range machines {
			if machine.ProviderID() == node.Spec.ProviderID {
				return machine.Name
			}
		}
		if strings.HasPrefix(node.Spec.ProviderID, "metal://") {
			return "not found"
		}
		return "terminal"
	}
	uuid := node.Status.NodeInfo.SystemUUID
	var fits []string
	contradicted := false
	for _, machine := range machines {
		fit := machine.Name == node.Name || machine.SystemUUID != "" && machine.SystemUUID == uuid
		for _, address := range machine.MACAddresses {
			fit = fit || uuid != "" && strings.HasSuffix(uuid, strings.ReplaceAll(address, ":", ""))
		}
		for _, address := range node.Status.Addresses {
			fit = fit || address.Address == machine.Addresses[0].Address
		}
		if fit {
			fits = append(fits, machine.ID+" "+machine.Name)
			contradicted = contradicted || uuid != "" && machine.SystemUUID != "" && machine.SystemUUID != uuid
		}
	}
	slices.Sort(fits)
	var names []string
	for _, fit := range fits {
		names = append(names, strings.Fields(fit)[1])
	}
	switch {
	case len(names) == 0:
		return "not found"
	case len(names) > 1 || contradicted:
		return "conflict " + strings.Join(names, " ")
	default:
		return names[0]
	}
}

func TestFindProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		machines, node := drawnMachines(t), drawnNode(t)
		index := NewIndex(machines)
		got := answer(index.Find(node))
		if want := plainly(machines, node); got != want {
			t.Fatalf("found %s, plainly %s", got, want)
		}
		shuffled := rapid.Permutation(slices.Clone(machines)).Draw(t, "shuffled")
		if again := answer(NewIndex(shuffled).Find(node)); again != got {
			t.Fatalf("found %s, and in another order %s", got, again)
		}
		// What a node is told of by name is what it is found by: listing and asking never contradict each other.
		names := index.NodeNames([]*v1.Node{node})
		var listed []string
		for _, machine := range index.Machines() {
			name, other := names[machine.ID]
			if !other {
				name = types.NodeName(machine.Name)
			}
			if string(name) == node.Name {
				listed = append(listed, machine.Name)
			}
		}
		byName := node.DeepCopy()
		byName.Spec.ProviderID = ""
		if node.Spec.ProviderID != "" {
			return
		}
		switch machine, err := index.Find(byName); {
		case err == nil && !cmp.Equal(listed, []string{machine.Name}):
			t.Fatalf("%s is listed for %q", machine.Name, listed)
		case strings.HasPrefix(got, "conflict ") && len(listed) == 1, got == "not found" && len(listed) > 0:
			t.Fatalf("%s, and listed for %q", got, listed)
		}
	})
}
