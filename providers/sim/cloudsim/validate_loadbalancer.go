package cloudsim

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// validateLoadBalancer returns everything that is wrong with a spec on its own and with what it refers to.
func validateLoadBalancer(spec api.LoadBalancerSpec, c catalog, exists func(string) bool) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(spec.Name) {
		errs = append(errs, field.Invalid(field.NewPath("name"), spec.Name, message))
	}
	if !c.hasRegion(spec.Region) {
		errs = append(errs, field.Invalid(field.NewPath("region"), spec.Region, "there is no such region"))
	}
	errs = append(errs, validateLabels(field.NewPath("tags"), spec.Tags)...)
	errs = append(errs, validateFamilies(spec)...)
	if spec.Addressing != "" {
		errs = append(errs, oneOf(field.NewPath("addressing"), spec.Addressing,
			[]api.Addressing{api.AddressingIP, api.AddressingHostname})...)
	}
	if spec.IPMode != "" {
		errs = append(errs, oneOf(field.NewPath("ipMode"), spec.IPMode, []api.IPMode{api.IPModeVIP, api.IPModeProxy})...)
	}
	for i, cidr := range spec.SourceRanges {
		errs = append(errs, validateCIDR(field.NewPath("sourceRanges").Index(i), cidr)...)
	}
	errs = append(errs, validateListeners(spec.Listeners)...)
	errs = append(errs, validateTargets(spec.Targets, exists)...)
	if spec.HealthCheck != nil {
		path := field.NewPath("healthCheck")
		errs = append(errs, validatePort(path.Child("port"), spec.HealthCheck.Port)...)
		if p := spec.HealthCheck.Path; p != "" && !strings.HasPrefix(p, "/") {
			errs = append(errs, field.Invalid(path.Child("path"), p, "must start with /"))
		}
	}
	return errs
}

func validateFamilies(spec api.LoadBalancerSpec) field.ErrorList {
	var errs field.ErrorList
	families := []api.IPFamily{}
	for i, family := range spec.IPFamilies {
		path := field.NewPath("ipFamilies").Index(i)
		errs = append(errs, oneOf(path, family, []api.IPFamily{api.IPv4, api.IPv6})...)
		if slices.Contains(families, family) {
			errs = append(errs, field.Duplicate(path, family))
		}
		families = append(families, family)
	}
	if len(families) == 0 {
		families = []api.IPFamily{api.IPv4}
	}
	for i, address := range spec.RequestedAddresses {
		path := field.NewPath("requestedAddresses").Index(i)
		family := familyOf(address)
		switch {
		case family == "":
			errs = append(errs, field.Invalid(path, address, "must be an IP address"))
		case !inRange(address):
			errs = append(errs, field.Invalid(path, address, "must be in "+rangeIPv4.String()+" or "+rangeIPv6.String()))
		case !slices.Contains(families, family):
			errs = append(errs, field.Invalid(path, address, "there may be one address for each of ipFamilies"))
		}
		families = slices.DeleteFunc(families, func(f api.IPFamily) bool { return f == family })
	}
	return errs
}

func validateListeners(listeners []api.Listener) field.ErrorList {
	path := field.NewPath("listeners")
	if len(listeners) == 0 {
		return field.ErrorList{field.Required(path, "a load balancer listens on at least one port")}
	}
	type key struct {
		protocol api.Protocol
		port     int32
	}
	var errs field.ErrorList
	seen := map[key]bool{}
	for i, listener := range listeners {
		where := path.Index(i)
		errs = append(errs, oneOf(where.Child("protocol"), listener.Protocol,
			[]api.Protocol{api.ProtocolTCP, api.ProtocolUDP, api.ProtocolSCTP})...)
		errs = append(errs, validatePort(where.Child("port"), listener.Port)...)
		errs = append(errs, validatePort(where.Child("targetPort"), listener.TargetPort)...)
		k := key{listener.Protocol, listener.Port}
		if seen[k] {
			errs = append(errs, field.Duplicate(where.Child("port"), listener.Port))
		}
		seen[k] = true
	}
	return errs
}

func validateTargets(targets []string, exists func(string) bool) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, id := range targets {
		path := field.NewPath("targets").Index(i)
		if !exists(id) {
			errs = append(errs, field.Invalid(path, id, "there is no such instance"))
		}
		if seen[id] {
			errs = append(errs, field.Duplicate(path, id))
		}
		seen[id] = true
	}
	return errs
}

func validatePort(path *field.Path, port int32) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsValidPortNum(int(port)) {
		errs = append(errs, field.Invalid(path, port, message))
	}
	return errs
}

// completeLoadBalancer fills in what a valid spec leaves to the cloud, and puts into order what has none.
func completeLoadBalancer(spec api.LoadBalancerSpec) api.LoadBalancerSpec {
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []api.IPFamily{api.IPv4}
	}
	if spec.Addressing == "" {
		spec.Addressing = api.AddressingIP
	}
	if spec.IPMode == "" {
		spec.IPMode = api.IPModeVIP
	}
	spec.Targets = slices.Sorted(slices.Values(spec.Targets))
	return spec
}
