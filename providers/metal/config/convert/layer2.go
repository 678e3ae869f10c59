package convert

import (
	"reflect"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// layer2Value is the chart's value that gives replicas what they need for that.
const layer2Value = "provider.metal.l2"

// convertL2 converts the advertisements on segments to one section.
func (c *conversion) convertL2() {
	if len(c.from.l2Adverts) == 0 {
		return
	}
	section := &config.L2{}
	for i := range c.from.l2Adverts {
		advert := &c.from.l2Adverts[i]
		note := c.notes.of(advert.name())
		pools, all := c.selected(advert.Spec.IPAddressPools, advert.Spec.IPAddressPoolSelectors, note)
		if !all && len(pools) == 0 {
			note(Lost, "", "selects no pool, and is left out")
			continue
		}
		if len(advert.Spec.PreferredNodeSelectors) > 0 {
			note(Lost, "spec.preferredNodeSelectors", "no node is preferred: the address decides which of the working nodes answers")
		}
		if len(advert.Spec.Interfaces) > 0 {
			note(Info, "spec.interfaces", "are interfaces of the replicas here, which answer for all nodes, and not those of each node")
		}
		section.Advertisements = append(section.Advertisements, config.L2Advertisement{
			Pools: pools, ServiceSelectors: advert.Spec.ServiceSelectors, NodeSelectors: advert.Spec.NodeSelectors, Interfaces: advert.Spec.Interfaces,
		})
	}
	if len(section.Advertisements) == 0 {
		c.notes.add(Lost, "L2Advertisement", "", "none selects a pool; the config has no section l2")
		return
	}
	if len(section.Advertisements) == 1 && reflect.DeepEqual(section.Advertisements[0], config.L2Advertisement{}) {
		section.Advertisements = nil // everything, as without
	}
	c.config.L2 = section
	c.notes.add(Action, "L2Advertisement", "", "replicas answer from the network of the nodes, and open raw sockets: set "+layer2Value+" of the chart (docs/how-to/metal-layer-2.md). "+
		"Only nodes with an InternalIP on the network of an address can be its next hop")
}
