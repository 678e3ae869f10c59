package cloudsim

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// The most that a spec may hold.
const (
	maxLabels      = 64
	maxLabelLength = 255
	maxAddresses   = 16
)

// at returns the path of a field below path, which is nil for the root.
func at(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}

// validateName checks an RFC 1123 label.
func validateName(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func validateMachineType(path *field.Path, machineType api.MachineType) field.ErrorList {
	errs := validateName(path.Child("name"), machineType.Name)
	if machineType.CPUs < 1 {
		errs = append(errs, field.Invalid(path.Child("cpus"), machineType.CPUs, "must be at least 1"))
	}
	if machineType.MemoryMiB < 1 {
		errs = append(errs, field.Invalid(path.Child("memoryMiB"), machineType.MemoryMiB, "must be at least 1"))
	}
	return errs
}

// validateInstance returns everything that is wrong with a spec on its own and with what it refers to.
func validateInstance(spec api.InstanceSpec, c catalog, path *field.Path) field.ErrorList {
	errs := validateName(at(path, "name"), spec.Name)
	errs = append(errs, oneOf(at(path, "zone"), spec.Zone, sortedNames(c.zones))...)
	errs = append(errs, oneOf(at(path, "machineType"), spec.MachineType, sortedNames(c.machineTypes))...)
	if spec.Power != "" {
		errs = append(errs, oneOf(at(path, "power"), spec.Power, []api.Power{api.PowerOn, api.PowerOff})...)
	}
	errs = append(errs, validateLabels(at(path, "labels"), spec.Labels)...)
	if len(spec.Addresses) > maxAddresses {
		errs = append(errs, field.TooMany(at(path, "addresses"), len(spec.Addresses), maxAddresses))
	}
	seen := map[api.Address]bool{}
	for i, address := range spec.Addresses {
		where := at(path, "addresses").Index(i)
		errs = append(errs, validateAddress(where, address)...)
		if seen[address] {
			errs = append(errs, field.Duplicate(where, string(address.Type)+" "+address.Address))
		}
		seen[address] = true
	}
	return errs
}

func validateAddress(path *field.Path, address api.Address) field.ErrorList {
	names := []api.AddressType{api.AddressHostname, api.AddressInternalDNS, api.AddressExternalDNS}
	ips := []api.AddressType{api.AddressInternalIP, api.AddressExternalIP}
	errs := oneOf(path.Child("type"), address.Type, slices.Concat(names, ips))
	switch {
	case slices.Contains(names, address.Type):
		errs = append(errs, validateName(path.Child("address"), address.Address)...)
		if address.Family != "" {
			errs = append(errs, field.Invalid(path.Child("family"), address.Family, "must be empty for a name"))
		}
	case slices.Contains(ips, address.Type):
		family := familyOf(address.Address)
		if family == "" {
			errs = append(errs, field.Invalid(path.Child("address"), address.Address, "must be an IP address"))
		} else if address.Family != "" && address.Family != family {
			errs = append(errs, field.Invalid(path.Child("family"), address.Family, "is not the family of "+address.Address))
		}
	}
	return errs
}

// validateLabels checks sizes only: this cloud, like others, allows labels that Kubernetes does not.
func validateLabels(path *field.Path, labels map[string]string) field.ErrorList {
	var errs field.ErrorList
	if len(labels) > maxLabels {
		errs = append(errs, field.TooMany(path, len(labels), maxLabels))
	}
	for _, key := range sortedNames(labels) {
		if key == "" || len(key) > maxLabelLength {
			errs = append(errs, field.Invalid(path.Key(key), key, fmt.Sprintf("a key must have 1 to %d bytes", maxLabelLength)))
		}
		if len(labels[key]) > maxLabelLength {
			errs = append(errs, field.TooLong(path.Key(key), labels[key], maxLabelLength))
		}
	}
	return errs
}

// complete fills in what a valid spec leaves to the cloud.
func complete(spec api.InstanceSpec) api.InstanceSpec {
	if spec.Power == "" {
		spec.Power = api.PowerOn
	}
	addresses := slices.Clone(spec.Addresses)
	for i := range addresses {
		if addresses[i].Type == api.AddressInternalIP || addresses[i].Type == api.AddressExternalIP {
			addresses[i].Family = familyOf(addresses[i].Address)
		}
	}
	spec.Addresses = addresses
	return spec
}

// oneOf checks that a value is one of some.
func oneOf[T ~string](path *field.Path, value T, allowed []T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "must be one of "+join(allowed))}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.Invalid(path, value, "must be one of "+join(allowed))}
	default:
		return nil
	}
}

func join[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	return strings.Join(texts, ", ")
}

func validateRoute(spec api.RouteSpec, exists func(string) bool) field.ErrorList {
	errs := validateName(field.NewPath("cluster"), spec.Cluster)
	errs = append(errs, validateCIDR(field.NewPath("destinationCIDR"), spec.DestinationCIDR)...)
	if spec.TargetInstance == "" {
		errs = append(errs, field.Required(field.NewPath("targetInstance"), ""))
	} else if !exists(spec.TargetInstance) {
		errs = append(errs, field.Invalid(field.NewPath("targetInstance"), spec.TargetInstance, "there is no such instance"))
	}
	if len(spec.Name) > maxLabelLength {
		errs = append(errs, field.TooLong(field.NewPath("name"), spec.Name, maxLabelLength))
	}
	return errs
}

// validateCIDR checks a prefix in its one canonical form, so equal prefixes are equal strings.
func validateCIDR(path *field.Path, text string) field.ErrorList {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return field.ErrorList{field.Invalid(path, text, "must be a CIDR such as 10.1.2.0/24")}
	}
	if canonical := prefix.Masked().String(); canonical != text {
		return field.ErrorList{field.Invalid(path, text, "must be "+canonical)}
	}
	return nil
}
