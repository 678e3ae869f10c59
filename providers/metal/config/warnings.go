package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// patientHoldTime is the longest hold time of a peer without BFD of which nothing is said.
const patientHoldTime = 30 * time.Second

// Warnings returns what is suspicious in a config that was loaded: what is valid, and hardly meant.
func (c *CloudConfig) Warnings() []Warning {
	var found warnings
	c.warnOfSections(&found)
	c.warnOfPools(&found)
	c.warnOfFamilies(&found)
	c.warnOfMachines(&found)
	c.warnOfNodeGroups(&found)
	if c.BGP != nil {
		c.BGP.warn(&found, field.NewPath("bgp"))
	}
	return found
}

type warnings []Warning

func (w *warnings) add(path *field.Path, format string, values ...any) {
	*w = append(*w, Warning{Field: path.String(), Message: fmt.Sprintf(format, values...)})
}

// warnOfSections says which sections do nothing without another one.
func (c *CloudConfig) warnOfSections(found *warnings) {
	announces := c.BGP != nil || c.L2 != nil
	switch {
	case !c.Inventory.Enabled() && len(c.Pools) == 0 && !announces:
		found.add(field.NewPath("kind"), "the config turns nothing on: it has neither inventory, pools, bgp nor l2")
	case len(c.Pools) > 0 && !announces:
		found.add(field.NewPath("pools"), "Services get addresses that no replica announces: neither bgp nor l2 is set")
	case len(c.Pools) == 0 && c.L2 != nil:
		found.add(field.NewPath("l2"), "no Service gets an address to answer for: there are no pools")
	case len(c.Pools) == 0 && c.BGP != nil && !*c.Announcement.PodRoutes:
		found.add(field.NewPath("bgp"), "there is nothing to announce: there are no pools, and announcement.podRoutes is false")
	}
	if c.Announcement.LocalNextHops < c.Announcement.ClusterNextHops {
		found.add(field.NewPath("announcement", "localNextHops"), "is less than clusterNextHops, %d: a Service with externalTrafficPolicy "+
			"Local may need all nodes that have its pods", c.Announcement.ClusterNextHops)
	}
}

// warnOfPools warns if no pool assigns addresses by itself, if l2 names a pool that does not exist, and if a pool is not announced.
func (c *CloudConfig) warnOfPools(found *warnings) {
	at, known, automatic := field.NewPath("pools"), map[string]bool{}, false
	for i := range c.Pools {
		known[c.Pools[i].Name] = true
		automatic = automatic || c.Pools[i].AutoAssigns()
	}
	if len(c.Pools) > 0 && !automatic {
		found.add(at, "no pool has autoAssign and is not disabled: a Service gets an address only if it names a pool or an address")
	}
	if c.L2 == nil {
		return
	}
	for i, name := range c.L2.Pools {
		if !known[name] {
			found.add(field.NewPath("l2", "pools").Index(i), "there is no pool %q", name)
		}
	}
	for i := range c.L2.Advertisements {
		for j, name := range c.L2.Advertisements[i].Pools {
			if !known[name] {
				found.add(field.NewPath("l2", "advertisements").Index(i).Child("pools").Index(j), "there is no pool %q", name)
			}
		}
	}
	if len(c.L2.Pools) == 0 || c.BGP != nil {
		return
	}
	for i := range c.Pools {
		if !slices.Contains(c.L2.Pools, c.Pools[i].Name) {
			found.add(at.Index(i), "no replica announces the addresses of the pool %q: l2.pools does not name it, and there is no bgp", c.Pools[i].Name)
		}
	}
}

// warnOfMachines says what the inventory leaves to chance.
func (c *CloudConfig) warnOfMachines(found *warnings) {
	managed := 0
	for i := range c.Inventory.Machines {
		machine := &c.Inventory.Machines[i]
		at := field.NewPath(machine.Origin)
		if machine.BMC == nil {
			continue
		}
		managed++
		if redfish := machine.BMC.Redfish; redfish != nil && redfish.InsecureSkipVerify {
			found.add(at.Child("bmc", "redfish", "insecureSkipVerify"), "an attacker on the path to the BMC can read its password and report that %s is off; set bmc.redfish.caFile instead", machine.Name)
		}
	}
	if c.Power.OutOfService.Enabled && managed == 0 {
		found.add(field.NewPath("power", "outOfService", "enabled"), "no node gets the taint: no machine has a bmc, which would report that it is off")
	}
}

// warn says which settings of the section have no effect, or another one than the operator may expect.
func (b *BGP) warn(found *warnings, path *field.Path) {
	external := true
	for i := range b.Peers {
		peer, at := &b.Peers[i], path.Child("peers").Index(i)
		external = external && peer.ASN != b.OwnASN(peer)
		if peer.BFD == nil && peer.HoldTime.Duration > patientHoldTime {
			found.add(at.Child("holdTime"), "this router keeps the routes of a crashed replica for %s; with bfd it drops them within a second",
				peer.HoldTime.Duration)
		}
		if peer.LocalPreference != nil && peer.ASN != b.OwnASN(peer) {
			found.add(at.Child("localPreference"), "an external router never sees it")
		}
		if source := peer.SourceAddr(); source.IsValid() {
			found.add(at.Child("sourceAddress"), "only the replica that has the address %s gets a session; leave it empty with several replicas", source)
		}
	}
	if b.LocalPreference != nil && external {
		found.add(path.Child("localPreference"), "all peers are external, and an external router never sees it")
	}
	if b.RouterID != "" && b.Mode == ActiveActive {
		found.add(path.Child("routerID"), "all replicas have the same one; leave it empty with several replicas")
	}
}

// warnOfFamilies says of which pools no peer takes the addresses.
func (c *CloudConfig) warnOfFamilies(found *warnings) {
	if c.BGP == nil || c.L2 != nil {
		return
	}
	carried := map[AddressFamily]bool{}
	for _, peer := range c.BGP.Peers {
		for _, family := range peer.Families {
			carried[family] = true
		}
	}
	for i := range c.Pools {
		ranges, _ := c.Pools[i].Ranges()
		for j, one := range ranges {
			if family := familyOf(one.First); !carried[family] {
				found.add(field.NewPath("pools").Index(i).Child("addresses").Index(j), "no router receives these addresses: no peer's families include %s", family)
			}
		}
	}
}

// familyOf returns the family of an address.
func familyOf(addr netip.Addr) AddressFamily {
	if addr.Is4() {
		return IPv4
	}
	return IPv6
}

// warnOfNodeGroups says which groups do not wake once all their machines sleep, and which wear machines out.
func (c *CloudConfig) warnOfNodeGroups(found *warnings) {
	for i := range c.NodeGroups {
		group, at := &c.NodeGroups[i], field.NewPath("nodeGroups").Index(i)
		if len(group.Capacity) == 0 && group.MinSize == 0 {
			found.add(at.Child("capacity"), "is not set, and minSize is 0: once all machines are off, their capacity is unknown and none is turned on")
		}
		if group.MinCycleTime.Duration == 0 {
			found.add(at.Child("minCycleTime"), "is 0s: machines may be turned off and on without a pause, which wears them out")
		}
	}
}
