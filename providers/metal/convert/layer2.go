package convert

import (
	"slices"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// layer2Value is the chart's value that gives replicas what they need for that.
const layer2Value = "provider.metal.l2"

// convertL2 converts the advertisements on segments to one section, which answers for all of them in one way.
func (c *conversion) convertL2() {
	if len(c.from.l2Adverts) == 0 {
		return
	}
	section, everyPool, everyInterface := &config.L2{}, false, false
	var first *l2Advertisement
	for i := range c.from.l2Adverts {
		advert := &c.from.l2Adverts[i]
		note := c.notes.of(advert.name())
		pools, all := c.selected(advert.Spec.IPAddressPools, advert.Spec.IPAddressPoolSelectors, note)
		everyPool = everyPool || all
		if !all && len(pools) == 0 {
			note(Lost, "", "selects no pool, and is left out")
			continue
		}
		if first == nil {
			first = advert
		}
		for _, pool := range pools {
			section.Pools = appendNew(section.Pools, pool)
		}
		everyInterface = everyInterface || len(advert.Spec.Interfaces) == 0
		for _, name := range advert.Spec.Interfaces {
			section.Interfaces = appendNew(section.Interfaces, name)
		}
		if !slices.Equal(advert.Spec.Interfaces, first.Spec.Interfaces) {
			note(Lost, "spec.interfaces", "other than those of %s: the section l2 has the same interfaces for all pools", first.name())
		}
		if len(advert.Spec.NodeSelectors) > 0 {
			note(Lost, "spec.nodeSelectors", "which nodes answer is the same for all addresses here: announcement.nodeSelector selects them")
		}
		if len(advert.Spec.ServiceSelectors) > 0 {
			note(Lost, "spec.serviceSelectors", "all Services with an address of the pools are answered for; give those that are not a pool of their own")
		}
		if len(advert.Spec.PreferredNodeSelectors) > 0 {
			note(Lost, "spec.preferredNodeSelectors", "no node is preferred: which one answers is chosen by the address, among those that work")
		}
		if len(advert.Spec.Interfaces) > 0 {
			note(Info, "spec.interfaces", "are interfaces of the replicas here, which answer for all nodes, and not those of each node")
		}
	}
	if everyPool {
		section.Pools = nil
	} else if len(section.Pools) == 0 {
		c.notes.add(Lost, "L2Advertisement", "", "none selects a pool, so that there is no section l2")
		return
	}
	if everyInterface {
		section.Interfaces = nil
	}
	c.config.L2 = section
	c.notes.add(Action, "L2Advertisement", "", "replicas answer from the network of the nodes, and open raw sockets: set "+layer2Value+" of the chart (docs/how-to/metal-layer-2.md). "+
		"Only nodes with an InternalIP on the network of an address can be its next hop")
}
