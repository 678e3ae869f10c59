package machine

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Index finds machines. It does not change and is safe for concurrent use.
type Index struct {
	// machines are in the order of their IDs.
	machines []*config.Machine
	byID     map[string]*config.Machine
	byName   map[string]*config.Machine
	// byUUID has system UUIDs as config.CanonicalUUID spells them, byNode the last six bytes of system UUIDs, in hexadecimal digits.
	byUUID    map[string]*config.Machine
	byNode    map[string]*config.Machine
	byAddress map[netip.Addr]*config.Machine
}

// NewIndex returns an index of machines of a config that was loaded, and which no longer change.
func NewIndex(machines []config.Machine) *Index {
	index := &Index{
		byID: map[string]*config.Machine{}, byName: map[string]*config.Machine{}, byUUID: map[string]*config.Machine{},
		byNode: map[string]*config.Machine{}, byAddress: map[netip.Addr]*config.Machine{},
	}
	for i := range machines {
		machine := &machines[i]
		index.machines = append(index.machines, machine)
		index.byID[machine.ID] = machine
		index.byName[machine.Name] = machine
		if canonical, ok := config.CanonicalUUID(machine.SystemUUID); ok {
			index.byUUID[canonical] = machine
		}
		for _, address := range machine.MACAddresses {
			index.byNode[strings.ReplaceAll(address, ":", "")] = machine
		}
		for _, address := range machine.Addresses {
			if ip, ok := address.IP(); ok && address.Type == v1.NodeInternalIP {
				index.byAddress[ip] = machine
			}
		}
	}
	slices.SortFunc(index.machines, func(a, b *config.Machine) int { return cmp.Compare(a.ID, b.ID) })
	return index
}

// Machines returns all machines in the order of their IDs.
func (i *Index) Machines() []*config.Machine { return i.machines }

// Get returns the machine with an ID.
func (i *Index) Get(id string) (*config.Machine, bool) {
	machine, ok := i.byID[id]
	return machine, ok
}

// Named returns the machine with a name.
func (i *Index) Named(name string) (*config.Machine, bool) {
	machine, ok := i.byName[name]
	return machine, ok
}

// Find returns the machine of a node. If there is no machine, the error is provider.ErrInstanceNotFound. If the node's provider ID cannot be
// a machine's, it is a provider.TerminalError. If it cannot be decided which machine it is, it is a *ConflictError.
func (i *Index) Find(node *v1.Node) (*config.Machine, error) {
	if node.Spec.ProviderID != "" {
		id, err := ParseProviderID(node.Spec.ProviderID)
		if err != nil {
			return nil, err
		}
		if machine, ok := i.byID[id]; ok {
			return machine, nil
		}
		return nil, fmt.Errorf("no machine in the inventory has the ID %s: %w", id, provider.ErrInstanceNotFound)
	}
	found := i.matches(node)
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("no machine in the inventory has the name %s, the system UUID %s or an address of the node: %w",
			node.Name, node.Status.NodeInfo.SystemUUID, provider.ErrInstanceNotFound)
	case len(found) > 1 || found[0].Contradiction != "":
		return nil, &ConflictError{Node: node.Name, Matches: found}
	default:
		return found[0].Machine, nil
	}
}

// Match is a machine that something of a node points to.
type Match struct {
	// Machine is that machine.
	Machine *config.Machine
	// By says what points to it, for people.
	By []string
	// Contradiction says what of the node is another machine's for certain; empty if nothing is.
	Contradiction string
}

// ConflictError says that it cannot be decided which machine a node's is, because what is known of the node does not fit one machine.
type ConflictError struct {
	// Node is the name of the node.
	Node string
	// Matches are the machines that it may be, in the order of their IDs.
	Matches []Match
}

// Error names the machines, and what points to each.
func (e *ConflictError) Error() string {
	var parts []string
	for _, match := range e.Matches {
		part := fmt.Sprintf("%s (%s, by its %s)", match.Machine.Name, match.Machine.Origin, strings.Join(match.By, " and "))
		if match.Contradiction != "" {
			part += ", but " + match.Contradiction
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("node %s does not fit one machine: it may be %s", e.Node, strings.Join(parts, ", or "))
}

// matches returns the machines that a node without a provider ID may be, in the order of their IDs.
func (i *Index) matches(node *v1.Node) []Match {
	found := map[*config.Machine][]string{}
	note := func(machine *config.Machine, ok bool, by string) {
		if ok {
			found[machine] = append(found[machine], by)
		}
	}
	machine, ok := i.byName[node.Name]
	note(machine, ok, "name")
	canonical, known := systemUUID(node)
	if known {
		machine, ok = i.byUUID[canonical]
		note(machine, ok, "system UUID "+node.Status.NodeInfo.SystemUUID)
		suffix := canonical[len(canonical)-12:]
		machine, ok = i.byNode[suffix]
		note(machine, ok, "MAC address at the end of system UUID "+node.Status.NodeInfo.SystemUUID)
	}
	for _, address := range addresses(node) {
		machine, ok = i.byAddress[address]
		note(machine, ok, "address "+address.String())
	}
	var all []Match
	for machine, by := range found {
		match := Match{Machine: machine, By: by}
		if own, has := config.CanonicalUUID(machine.SystemUUID); has && known && own != canonical {
			match.Contradiction = fmt.Sprintf("its system UUID is %s, not %s", node.Status.NodeInfo.SystemUUID, machine.SystemUUID)
		}
		all = append(all, match)
	}
	slices.SortFunc(all, func(a, b Match) int { return cmp.Compare(a.Machine.ID, b.Machine.ID) })
	return all
}

// systemUUID returns the system UUID of a node as config.CanonicalUUID spells it, and whether the node says it. The UUIDs that
// firmware shows which has none say nothing.
func systemUUID(node *v1.Node) (string, bool) {
	return config.KnownUUID(node.Status.NodeInfo.SystemUUID)
}

// addresses returns the internal addresses of a node, each once: the addresses in its status, and the addresses that its kubelet was
// started with.
func addresses(node *v1.Node) []netip.Addr {
	texts := strings.Split(node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr], ",")
	for _, address := range node.Status.Addresses {
		if address.Type == v1.NodeInternalIP {
			texts = append(texts, address.Address)
		}
	}
	var all []netip.Addr
	seen := map[netip.Addr]bool{} // an annotation holds tens of thousands
	for _, text := range texts {
		if ip, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil && !seen[ip] {
			seen[ip] = true
			all = append(all, ip)
		}
	}
	return all
}

// NodeNames returns, by the IDs of machines, the names of the nodes that they are found by as long as those have no provider ID,
// where that is not the machine's own name: the name of a node which points to it. A node that may be one of several machines is
// named for each of them, so it is seen to be ambiguous; and a node with a machine's name that cannot be it takes the name away
// from the machine, whose name is then empty.
func (i *Index) NodeNames(nodes []*v1.Node) map[string]types.NodeName {
	claims := map[string][]string{}
	names := map[string]types.NodeName{}
	for _, node := range nodes {
		if node.Spec.ProviderID != "" {
			continue
		}
		found := i.matches(node)
		for _, match := range found {
			if len(found) == 1 && match.Contradiction != "" {
				if match.Machine.Name == node.Name {
					names[match.Machine.ID] = ""
				}
				continue
			}
			claims[match.Machine.ID] = append(claims[match.Machine.ID], node.Name)
		}
	}
	for id, claimed := range claims {
		if slices.Contains(claimed, i.byID[id].Name) {
			delete(names, id)
		} else {
			names[id] = types.NodeName(slices.Min(claimed))
		}
	}
	return names
}
