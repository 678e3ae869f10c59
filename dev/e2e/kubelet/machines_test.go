package kubelet_test

import (
	"fmt"
	"net/netip"
	"strings"
)

// machine is a node to be: a host on the segment, and what its kubelet gets as --node-ip.
type machine struct {
	name    string
	v4, v6  netip.Prefix
	nodeIPs []netip.Addr
}

// machines cover the forms of --node-ip.
func machines() []machine {
	all := []machine{{name: "plain"}, {name: "ipv4"}, {name: "ipv6"}, {name: "dual"}}
	for i := range all {
		all[i].v4 = netip.MustParsePrefix(fmt.Sprintf("10.77.0.%d/24", 11+i))
		all[i].v6 = netip.MustParsePrefix(fmt.Sprintf("fd00:77::%d/64", 11+i))
	}
	all[1].nodeIPs = []netip.Addr{all[1].v4.Addr()}
	all[2].nodeIPs = []netip.Addr{all[2].v6.Addr()}
	all[3].nodeIPs = []netip.Addr{all[3].v4.Addr(), all[3].v6.Addr()}
	return all
}

// nodeIP is the value of --node-ip, and of the annotation that hints it to the cloud controller manager.
func (m machine) nodeIP() string {
	var texts []string
	for _, addr := range m.nodeIPs {
		texts = append(texts, addr.String())
	}
	return strings.Join(texts, ",")
}
