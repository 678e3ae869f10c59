package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateBMCs returns an error for each machine that has the same BMC as another machine, and names both. Such a line was copied: what the
// controller says of one machine would be believed of the other. A Redfish service may have the systems of several machines, and then the
// systemID of each says which.
func validateBMCs(machines []Machine) field.ErrorList {
	var errs field.ErrorList
	known := map[string][]*Machine{}
	for i := range machines {
		machine := &machines[i]
		at, where, ok := machine.BMC.place()
		if !ok {
			continue
		}
		for _, other := range known[where] {
			if !machine.BMC.sameSystem(other.BMC) {
				continue
			}
			errs = append(errs, field.Invalid(field.NewPath(machine.Origin, "bmc", at), where, fmt.Sprintf(
				"machine %s has the same BMC as machine %s (%s): %s", machine.Name, other.Name, other.Origin, machine.BMC.distinction())))
			break
		}
		known[where] = append(known[where], machine)
	}
	return errs
}

// place returns where the controller is, in one spelling, and the field that says so. Commands have no place: their environment
// names the machine.
func (b *BMC) place() (at, where string, ok bool) {
	switch {
	case b == nil:
		return "", "", false
	case b.Redfish != nil:
		where, ok = placeOf(b.Redfish.Endpoint)
		return "redfish", where, ok
	case b.IPMI != nil:
		host, port := b.IPMI.HostPort()
		return "ipmi", net.JoinHostPort(hostOf(host), strconv.Itoa(port)), host != "" && port != 0
	default:
		return "", "", false
	}
}

// placeOf returns the URL of a Redfish service in one spelling. One that is refused anyway has none: it may hold a password.
func placeOf(endpoint string) (string, bool) {
	parsed, err := url.Parse(endpoint)
	if err != nil || parsed.Host == "" || parsed.User != nil {
		return "", false
	}
	port := parsed.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[parsed.Scheme]
	}
	return parsed.Scheme + "://" + net.JoinHostPort(hostOf(parsed.Hostname()), port) + strings.TrimRight(parsed.Path, "/"), true
}

// hostOf returns one spelling of an address or a name.
func hostOf(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// sameSystem reports whether two controllers at one place may be asked for one system.
func (b *BMC) sameSystem(other *BMC) bool {
	if b.Redfish == nil || other.Redfish == nil {
		return true
	}
	return b.Redfish.SystemID == "" || other.Redfish.SystemID == "" || b.Redfish.SystemID == other.Redfish.SystemID
}

// distinction says what distinguishes two machines.
func (b *BMC) distinction() string {
	if b.Redfish != nil {
		return "give each its own endpoint, or a systemID of its own if the service has the systems of both"
	}
	return "give each its own address"
}
