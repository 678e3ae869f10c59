package fencing

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Self is what this replica knows of the machine that it runs on.
type Self struct {
	// Names may be that of its node: the name of the host, and $NODE_NAME where the pod has it.
	Names []string
	// Addresses are those of its interfaces: the node's, or the pod's.
	Addresses []netip.Addr
	// SystemUUID is that of the machine; empty where it cannot be read.
	SystemUUID string
}

// productUUID is where Linux shows the system UUID, to root.
const productUUID = "/sys/class/dmi/id/product_uuid"

// ObserveSelf looks at the machine that this process runs on.
func ObserveSelf() (Self, error) {
	var self Self
	name, err := os.Hostname()
	if err != nil {
		return Self{}, fmt.Errorf("the name of this host: %w", err)
	}
	self.Names = append(self.Names, strings.ToLower(name))
	if node := os.Getenv("NODE_NAME"); node != "" {
		self.Names = append(self.Names, node)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return Self{}, fmt.Errorf("the addresses of this host: %w", err)
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(network.IP); ok && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
				self.Addresses = append(self.Addresses, ip.Unmap())
			}
		}
	}
	if text, err := os.ReadFile(productUUID); err == nil { // others than root may not
		self.SystemUUID = strings.TrimSpace(string(text))
	}
	return self, nil
}

// Is reports whether a node is, or may be, that of this replica: by one thing that both have.
func (s Self) Is(node *v1.Node) bool {
	for _, name := range s.Names {
		if name == node.Name || name == node.Labels[v1.LabelHostname] {
			return true
		}
	}
	own, known := config.KnownUUID(s.SystemUUID)
	if theirs, ok := config.KnownUUID(node.Status.NodeInfo.SystemUUID); ok && known && theirs == own {
		return true
	}
	for _, address := range s.Addresses {
		for _, other := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(other.Address); err == nil && ip.Unmap() == address {
				return true
			}
		}
		for _, cidr := range node.Spec.PodCIDRs {
			if prefix, err := netip.ParsePrefix(cidr); err == nil && prefix.Contains(address) {
				return true
			}
		}
	}
	return false
}
