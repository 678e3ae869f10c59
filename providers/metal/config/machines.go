package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ProviderIDScheme is the scheme of the provider IDs of machines.
const ProviderIDScheme = "metal"

// Inventory says which machines there are. A machine exists as long as it is in the inventory: the node of one that was taken out
// is deleted.
type Inventory struct {
	// Machines are the machines of this file.
	Machines []Machine `json:"machines,omitempty"`
	// Paths are files of kind MachineList and folders of such files (*.yaml, *.yml and *.json, not those in folders inside).
	// A folder without any is an error. Once loaded, their machines are among Machines.
	Paths []string `json:"paths,omitempty"`
	// Defaults are what all machines have, those of Paths included, that do not say otherwise.
	Defaults MachineDefaults `json:"defaults,omitzero"`
}

// MachineList is a file of machines, for example those of one rack.
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	// Defaults are what the machines of this file have that do not say otherwise. They count before those of the inventory.
	Defaults MachineDefaults `json:"defaults,omitzero"`
	// Machines are those of this file.
	Machines []Machine `json:"machines,omitempty"`
}

// MachineDefaults are what machines have that do not say otherwise.
type MachineDefaults struct {
	// Region is as of a Machine.
	Region string `json:"region,omitempty"`
	// Zone is as of a Machine.
	Zone string `json:"zone,omitempty"`
	// MachineType is as of a Machine.
	MachineType string `json:"machineType,omitempty"`
	// Labels are added to those of each machine; for a label that both have, the machine's counts.
	Labels map[string]string `json:"labels,omitempty"`
	// BMC holds what management controllers have in common.
	BMC BMCDefaults `json:"bmc,omitzero"`
}

// Machine is one machine that is or may become a node.
//
// A node that has no provider ID yet belongs to the machine that has its name, its system UUID, the MAC address in its system UUID
// or one of its internal addresses. If they point to different machines, the node belongs to none, and the error names them.
type Machine struct {
	// Name is unique in the inventory, and usually the name of the machine's node. Required.
	Name string `json:"name"`
	// ID is what the provider ID is made of: metal://ID. Default: the system UUID in lower case, or else the first MAC address with dashes,
	// or else the name. A machine with neither UUID nor MAC address needs it to keep its provider ID when its name changes.
	ID string `json:"id,omitempty"`
	// SystemUUID is the SMBIOS UUID of the system, as in status.nodeInfo.systemUUID of its node, in either byte order.
	SystemUUID string `json:"systemUUID,omitempty"`
	// MACAddresses are those of the machine's interfaces. One finds a node whose system UUID ends with it.
	MACAddresses []string `json:"macAddresses,omitempty"`
	// Addresses are those of the node, in this order. At least one must be an InternalIP. Required.
	Addresses []Address `json:"addresses"`
	// Region is the label topology.kubernetes.io/region of the node. Default: none.
	Region string `json:"region,omitempty"`
	// Zone is the label topology.kubernetes.io/zone of the node, for example the rack. Default: none.
	Zone string `json:"zone,omitempty"`
	// MachineType is the label node.kubernetes.io/instance-type of the node. Default: none.
	MachineType string `json:"machineType,omitempty"`
	// Labels are further labels of the node.
	Labels map[string]string `json:"labels,omitempty"`
	// BMC is the management controller, by which the power state is known. Without one it is always unknown.
	BMC *BMC `json:"bmc,omitempty"`
	// Maintenance keeps node groups and fencing from turning the machine on or off while people work on it. Default: false.
	Maintenance bool `json:"maintenance,omitempty"`

	// Origin is where the machine stands, for messages: a field path, with the name of the list that it is in.
	Origin string `json:"-"`
	// IDFrom says what ID was made of.
	IDFrom IDSource `json:"-"`
}

// Address is one address of a node.
type Address struct {
	// Type is InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS. Default: InternalIP.
	Type v1.NodeAddressType `json:"type,omitempty"`
	// Address is an IPv4 or IPv6 address, or for the other types a DNS name. Required.
	Address string `json:"address"`
}

// IP returns the address, and whether it is one.
func (a Address) IP() (netip.Addr, bool) {
	ip, err := netip.ParseAddr(a.Address)
	return ip, err == nil
}

// IDSource says what the ID of a machine was made of.
type IDSource string

// The sources of IDs, in the order in which they count.
const (
	IDExplicit       IDSource = "id"
	IDFromSystemUUID IDSource = "systemUUID"
	IDFromMACAddress IDSource = "macAddresses"
	IDFromName       IDSource = "name"
)

// ProviderID returns the provider ID of the machine's node.
func (m *Machine) ProviderID() string { return ProviderIDScheme + "://" + m.ID }

// Enabled reports whether there is an inventory at all.
func (i *Inventory) Enabled() bool { return len(i.Machines) > 0 || len(i.Paths) > 0 }

// inherit takes what the machine does not say from defaults.
func (m *Machine) inherit(defaults MachineDefaults) {
	m.Region = cmp.Or(m.Region, defaults.Region)
	m.Zone = cmp.Or(m.Zone, defaults.Zone)
	m.MachineType = cmp.Or(m.MachineType, defaults.MachineType)
	if len(defaults.Labels) > 0 {
		labels := maps.Clone(defaults.Labels)
		maps.Copy(labels, m.Labels)
		m.Labels = labels
	}
	if m.BMC != nil {
		m.BMC.inherit(defaults.BMC)
	}
}

func (m *Machine) setDefaults() {
	for i := range m.Addresses {
		address := &m.Addresses[i]
		address.Type = cmp.Or(address.Type, v1.NodeInternalIP)
		if ip, ok := address.IP(); ok {
			address.Address = ip.String() // one spelling, by which addresses can be compared
		}
	}
	if parsed, err := uuid.Parse(m.SystemUUID); err == nil {
		m.SystemUUID = parsed.String()
	}
	for i, address := range m.MACAddresses {
		if parsed, err := net.ParseMAC(address); err == nil {
			m.MACAddresses[i] = parsed.String()
		}
	}
	switch {
	case m.ID != "":
		m.IDFrom = IDExplicit
	case m.SystemUUID != "":
		m.ID, m.IDFrom = m.SystemUUID, IDFromSystemUUID
	case len(m.MACAddresses) > 0:
		m.ID, m.IDFrom = strings.ReplaceAll(m.MACAddresses[0], ":", "-"), IDFromMACAddress
	default:
		m.ID, m.IDFrom = m.Name, IDFromName
	}
	if m.BMC != nil {
		m.BMC.setDefaults()
	}
}

// complete gives the machines of one place what they leave out, by themselves or by the defaults, of which the first count
// most, and returns what is wrong with each. What comes from defaults is checked once, where it stands.
func complete(machines []Machine, origin *field.Path, defaults ...MachineDefaults) field.ErrorList {
	var errs field.ErrorList
	for i := range machines {
		machine, path := &machines[i], origin.Index(i)
		machine.Origin = path.String()
		machine.setDefaults()
		errs = append(errs, machine.validate(path)...)
		for _, d := range defaults {
			machine.inherit(d)
		}
		if machine.BMC != nil {
			errs = append(errs, machine.BMC.validateComplete(path.Child("bmc"))...)
		}
	}
	return errs
}

func (d *MachineDefaults) validate(path *field.Path) field.ErrorList {
	errs := validateLabels(path, d.Region, d.Zone, d.MachineType, d.Labels)
	if d.BMC.Credentials != nil {
		errs = append(errs, d.BMC.Credentials.validate(path.Child("bmc", "credentials"))...)
	}
	if d.BMC.PowerOffCredentials != nil {
		errs = append(errs, d.BMC.PowerOffCredentials.validate(path.Child("bmc", "powerOffCredentials"))...)
	}
	return errs
}

// validateLabels checks what becomes labels of a node.
func validateLabels(path *field.Path, region, zone, machineType string, labels map[string]string) field.ErrorList {
	var errs field.ErrorList
	for _, label := range []struct{ name, value string }{{"region", region}, {"zone", zone}, {"machineType", machineType}} {
		for _, message := range validation.IsValidLabelValue(label.value) {
			errs = append(errs, field.Invalid(path.Child(label.name), label.value, message))
		}
	}
	return append(errs, metav1validation.ValidateLabels(labels, path.Child("labels"))...)
}

// validID is what can stand in a provider ID.
var validID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

func (m *Machine) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "the name of the machine's node"))
	} else {
		for _, message := range validation.IsDNS1123Subdomain(m.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), m.Name, message))
		}
	}
	if m.IDFrom == IDExplicit && !validID.MatchString(m.ID) {
		errs = append(errs, field.Invalid(path.Child("id"), m.ID,
			"must be up to 253 letters, digits, '-', '.' and '_', with a letter or digit at both ends"))
	}
	if m.SystemUUID != "" {
		errs = append(errs, validateUUID(path.Child("systemUUID"), m.SystemUUID)...)
	}
	for i, address := range m.MACAddresses {
		if parsed, err := net.ParseMAC(address); err != nil || len(parsed) != 6 {
			at := path.Child("macAddresses").Index(i)
			errs = append(errs, field.Invalid(at, address, "must be a MAC address such as ac:1f:6b:00:00:01"))
		}
	}
	errs = append(errs, validateLabels(path, m.Region, m.Zone, m.MachineType, m.Labels)...)
	errs = append(errs, validateAddresses(path.Child("addresses"), m.Addresses)...)
	if m.BMC != nil {
		errs = append(errs, m.BMC.validate(path.Child("bmc"))...)
	}
	return errs
}

var addressTypes = []v1.NodeAddressType{
	v1.NodeInternalIP, v1.NodeExternalIP, v1.NodeHostName, v1.NodeInternalDNS, v1.NodeExternalDNS,
}

func validateAddresses(path *field.Path, addresses []Address) field.ErrorList {
	var errs field.ErrorList
	internal := false
	for i, address := range addresses {
		at := path.Index(i)
		ip, isIP := address.IP()
		switch address.Type {
		case v1.NodeInternalIP, v1.NodeExternalIP:
			internal = internal || address.Type == v1.NodeInternalIP
			if !isIP || ip.Zone() != "" || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() {
				errs = append(errs, field.Invalid(at.Child("address"), address.Address, "must be the IPv4 or IPv6 address of one host"))
			}
		case v1.NodeHostName, v1.NodeInternalDNS, v1.NodeExternalDNS:
			for _, message := range validation.IsDNS1123Subdomain(address.Address) {
				errs = append(errs, field.Invalid(at.Child("address"), address.Address, message))
			}
		default:
			errs = append(errs, field.NotSupported(at.Child("type"), address.Type, addressTypes))
		}
		if slices.Contains(addresses[:i], address) {
			errs = append(errs, field.Duplicate(at, fmt.Sprintf("%s %s", address.Type, address.Address)))
		}
	}
	if !internal {
		errs = append(errs, field.Required(path, "at least one address of type InternalIP"))
	}
	return errs
}

// claims are what only one machine can have, by the name of the field. The values are as package machine compares them.
func (m *Machine) claims() map[string][]string {
	claims := map[string][]string{"name": {m.Name}, "id": {m.ID}, "macAddresses": m.MACAddresses}
	for _, value := range []string{m.SystemUUID, m.BMCSystemUUID()} {
		if canonical, ok := CanonicalUUID(value); ok && !slices.Contains(claims["systemUUID"], canonical) {
			claims["systemUUID"] = append(claims["systemUUID"], canonical)
		}
	}
	for _, address := range m.Addresses {
		if address.Type == v1.NodeInternalIP {
			claims["addresses"] = append(claims["addresses"], address.Address)
		}
	}
	return claims
}

// validateUnique returns an error for each thing that a second machine claims; it names both places.
func validateUnique(machines []Machine) field.ErrorList {
	var errs field.ErrorList
	type claim struct{ name, value string }
	claimed := map[claim]*Machine{}
	for i := range machines {
		machine := &machines[i]
		claims := machine.claims()
		for _, name := range slices.Sorted(maps.Keys(claims)) {
			for _, value := range claims[name] {
				first, taken := claimed[claim{name, value}]
				switch {
				case value == "" || first == machine || name == "id" && machine.IDFrom != IDExplicit && taken && first.IDFrom == machine.IDFrom:
					// Nothing, or reported already: by the machine itself, or for what both IDs were made of.
				case taken:
					duplicate := field.Duplicate(field.NewPath(machine.Origin, name), value)
					duplicate.Detail = "also at " + first.Origin
					errs = append(errs, duplicate)
				default:
					claimed[claim{name, value}] = machine
				}
			}
		}
	}
	return errs
}

// BMCSystemUUID returns the UUID that the machine's management controller has to give for its system; empty if that is not known.
func (m *Machine) BMCSystemUUID() string {
	if m.BMC != nil && m.BMC.SystemUUID != "" {
		return m.BMC.SystemUUID
	}
	return m.SystemUUID
}
