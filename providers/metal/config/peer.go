package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DynamicASN says which autonomous systems a router may be in whose own is not configured.
type DynamicASN string

const (
	// InternalASN is the speaker's own autonomous system.
	InternalASN DynamicASN = "Internal"
	// ExternalASN is any other one. The router names it when the session begins.
	ExternalASN DynamicASN = "External"
)

// validateASN says what is wrong with the autonomous system of a router.
func (p *BGPPeer) validateASN(path *field.Path, ownASN uint32) field.ErrorList {
	switch at := path.Child("asn"); {
	case p.DynamicASN == "" && p.ASN == 0:
		return field.ErrorList{field.Required(at, "the autonomous system of the router")}
	case p.DynamicASN == "":
		return nil
	case p.DynamicASN != InternalASN && p.DynamicASN != ExternalASN:
		return field.ErrorList{field.NotSupported(path.Child("dynamicASN"), p.DynamicASN, []DynamicASN{InternalASN, ExternalASN})}
	case p.DynamicASN == ExternalASN && p.ASN != 0, p.DynamicASN == InternalASN && p.ASN != ownASN:
		return field.ErrorList{field.Invalid(at, p.ASN, fmt.Sprintf("does not go with dynamicASN: %s; leave one of both out", p.DynamicASN))}
	}
	return nil
}

// validateTTL says what is wrong with the time to live of packets of the session.
func (p *BGPPeer) validateTTL(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("ttlSecurityHops")
	if p.TTLSecurityHops < 0 || p.TTLSecurityHops > 254 {
		errs = append(errs, field.Invalid(at, p.TTLSecurityHops, "must be 1 to 254, or absent for no TTL security"))
	}
	if p.TTLSecurityHops > 1 && p.BFD != nil {
		errs = append(errs, field.Invalid(path.Child("bfd"), "set", "is of a single hop, and ttlSecurityHops says that the router may be further away"))
	}
	if p.TTLSecurityHops != 0 && p.EBGPMultihop != 0 {
		errs = append(errs, field.Invalid(at, p.TTLSecurityHops, "does not go with ebgpMultihop: TTL security sends with a TTL of 255 and says itself "+
			"how far away the router may be"))
	}
	return errs
}

// validateGateway says what is wrong with a router that is found by the default route.
func (p *BGPPeer) validateGateway(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.DefaultGateway != IPv4 && p.DefaultGateway != IPv6 {
		errs = append(errs, field.NotSupported(path.Child("defaultGateway"), p.DefaultGateway, []AddressFamily{IPv4, IPv6}))
	}
	for name, value := range map[string]string{"address": p.Address, "interface": p.Interface} {
		if value != "" {
			errs = append(errs, field.Invalid(path.Child(name), value, "does not go with defaultGateway"))
		}
	}
	return errs
}

// validateInterface says what is wrong with a router that is at the other end of a link.
func (p *BGPPeer) validateInterface(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(p.Interface) > maxInterface || strings.ContainsAny(p.Interface, "/%: \t\n") {
		errs = append(errs, field.Invalid(path.Child("interface"), p.Interface, "must be the name of an interface, for example eth0"))
	}
	for name, value := range map[string]string{"address": p.Address, "sourceAddress": p.SourceAddress, "sourceSubnet": p.SourceSubnet} {
		if value != "" {
			errs = append(errs, field.Invalid(path.Child(name), value, "does not go with interface"))
		}
	}
	if p.EBGPMultihop != 0 {
		errs = append(errs, field.Invalid(path.Child("ebgpMultihop"), p.EBGPMultihop, "does not go with interface: the router is at the other end of the link"))
	}
	return errs
}

// maxInterface is how long the name of an interface of Linux may be (IFNAMSIZ, less the byte that ends it).
const maxInterface = 15
