package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxNamed is how many addresses an error names that a range must not hold: a range may hold those of all machines.
const maxNamed = 3

// reserved is an address with an owner: no load balancer may have it.
type reserved struct {
	address netip.Addr
	owner   string
}

// reserved returns the addresses that have an owner by the config: machines, their management controllers and routers. The CIDRs of pods do
// not stand in the config.
func (c *CloudConfig) reserved() []reserved {
	var all []reserved
	add := func(text, owner string) {
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, reserved{address.Unmap().WithZone(""), owner})
		}
	}
	for i := range c.Inventory.Machines {
		machine := &c.Inventory.Machines[i]
		for _, address := range machine.Addresses {
			if address.Type == v1.NodeInternalIP || address.Type == v1.NodeExternalIP {
				add(address.Address, "machine "+machine.Name)
			}
		}
		add(machine.BMC.host(), "the BMC of machine "+machine.Name)
	}
	if c.BGP != nil {
		for i := range c.BGP.Peers {
			peer := &c.BGP.Peers[i]
			add(peer.Address, "BGP peer "+peer.Name)
			add(peer.SourceAddress, "the speaker toward BGP peer "+peer.Name)
		}
	}
	return all
}

// host returns the host of the controller; empty if it has none.
func (b *BMC) host() string {
	switch {
	case b == nil:
		return ""
	case b.Redfish != nil:
		if parsed, err := url.Parse(b.Redfish.Endpoint); err == nil {
			return parsed.Hostname()
		}
	case b.IPMI != nil:
		host, _ := b.IPMI.HostPort()
		return host
	}
	return ""
}

// validateReserved returns an error for each range of a pool that holds an address of a machine, a management controller or a
// router. A Service that got it would take the traffic of that host.
func validateReserved(path *field.Path, pools []Pool, all []reserved) field.ErrorList {
	var errs field.ErrorList
	for i := range pools {
		for j, text := range pools[i].Addresses {
			parsed, err := parseRange(text)
			if err != nil {
				continue // this is an error of its own
			}
			var held []string
			for _, one := range all {
				if overlap(parsed, AddressRange{one.address, one.address}) {
					held = append(held, fmt.Sprintf("%s of %s", one.address, one.owner))
				}
			}
			if len(held) == 0 {
				continue
			}
			detail := "holds " + strings.Join(held[:min(len(held), maxNamed)], ", ")
			if more := len(held) - maxNamed; more > 0 {
				detail += fmt.Sprintf(" and %d more", more)
			}
			errs = append(errs, field.Invalid(path.Index(i).Child("addresses").Index(j), text, detail+"; a Service would take their traffic"))
		}
	}
	return errs
}
