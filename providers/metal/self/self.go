// Package self says on which machine, and on which node, a replica of the manager runs.
package self

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Replica is what this replica knows of the machine that it runs on.
type Replica struct {
	// Node is the name of its node where the pod has it as $NODE_NAME; empty where it does not.
	Node string
	// Names may be the name of its node: the name of the host, and Node.
	Names []string
	// Addresses are those of its interfaces: the node's, or the pod's.
	Addresses []netip.Addr
	// SystemUUID is the system UUID of the machine; empty where it cannot be read.
	SystemUUID string
}

// productUUID is where Linux shows the system UUID, to root.
const productUUID = "/sys/class/dmi/id/product_uuid"

// Addresses returns all addresses of this machine, or of its network namespace, in the order in which the kernel lists them: of one
// interface, the primary address comes before what was added to it.
func Addresses() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("the addresses of this host: %w", err)
	}
	own := make([]netip.Addr, 0, len(found))
	for _, address := range found {
		if network, ok := address.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(network.IP); ok {
				own = append(own, ip.Unmap())
			}
		}
	}
	return own, nil
}

// Observe looks at the machine that this process runs on.
func Observe() (Replica, error) {
	name, err := os.Hostname()
	if err != nil {
		return Replica{}, fmt.Errorf("the name of this host: %w", err)
	}
	self := Replica{Node: os.Getenv("NODE_NAME"), Names: []string{strings.ToLower(name)}}
	if self.Node != "" {
		self.Names = append(self.Names, self.Node)
	}
	addresses, err := Addresses()
	if err != nil {
		return Replica{}, err
	}
	self.Addresses = slices.DeleteFunc(addresses, func(ip netip.Addr) bool { return ip.IsLoopback() || ip.IsLinkLocalUnicast() })
	if text, err := os.ReadFile(productUUID); err == nil { // others than root may not
		self.SystemUUID = strings.TrimSpace(string(text))
	}
	return self, nil
}

// Is reports whether a node is, or may be, this replica's node: by one thing that both have.
func (r Replica) Is(node *v1.Node) bool {
	for _, name := range r.Names {
		if name == node.Name || name == node.Labels[v1.LabelHostname] {
			return true
		}
	}
	own, known := config.KnownUUID(r.SystemUUID)
	if theirs, ok := config.KnownUUID(node.Status.NodeInfo.SystemUUID); ok && known && theirs == own {
		return true
	}
	for _, address := range r.Addresses {
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

// errNoNode says that none of the nodes belongs to this replica.
var errNoNode = errors.New("no node has the name, an address or the system UUID of this machine; set NODE_NAME in the pod, from spec.nodeName")

// Find returns the node of this replica: the one that $NODE_NAME names, or without it the only one that Is. It is an error if there
// is none, and if several may be it.
func (r Replica) Find(nodes []*v1.Node) (*v1.Node, error) {
	if r.Node != "" {
		for _, node := range nodes {
			if node.Name == r.Node {
				return node, nil
			}
		}
		return nil, fmt.Errorf("there is no node %s, which NODE_NAME names", r.Node)
	}
	var found *v1.Node
	for _, node := range nodes {
		switch {
		case !r.Is(node):
		case found != nil:
			return nil, fmt.Errorf("the nodes %s and %s both have something of this machine; set NODE_NAME in the pod, from spec.nodeName",
				min(found.Name, node.Name), max(found.Name, node.Name))
		default:
			found = node
		}
	}
	if found == nil {
		return nil, errNoNode
	}
	return found, nil
}
