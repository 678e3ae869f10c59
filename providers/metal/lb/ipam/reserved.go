package ipam

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

const (
	// EventInPool says, on a Node, that a pool has its address, which is left out of the pool. It is a warning.
	EventInPool = "NodeAddressInPool"
	// EventOfNode says that a Service gives up an address that a node has.
	EventOfNode = string(pool.OfNode)
)

// maxReserved is how many addresses of pools a node keeps from Services, and as many others; and how many of spec.externalIPs a Service
// keeps from others. A kubelet may write any number, and so may the author of a Service.
const maxReserved = 8

// awaitNodes returns once the nodes are known, so no Service gets the address of one; false when ctx ends before.
func (a *Allocator) awaitNodes(ctx context.Context) bool {
	return a.sources.Nodes == nil || cache.WaitForCacheSync(ctx.Done(), a.sources.Nodes.HasSynced)
}

// followNodes keeps the addresses of nodes away from Services, until end is called.
func (a *Allocator) followNodes() (end func() error, err error) {
	nodes := a.sources.Nodes
	if nodes == nil {
		return func() error { return nil }, nil
	}
	handler, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { a.markNodes() },
		UpdateFunc: func(before, after any) {
			was, _ := before.(*corev1.Node)
			if is, ok := after.(*corev1.Node); !ok || was == nil || !slices.Equal(addressesOf(was), addressesOf(is)) {
				a.markNodes()
			}
		},
		DeleteFunc: func(any) { a.markNodes() },
	})
	if err != nil {
		return nil, fmt.Errorf("following the watch of nodes: %w", err)
	}
	return func() error { return nodes.RemoveEventHandler(handler) }, nil
}

// markNodes has Run look at the addresses of nodes.
func (a *Allocator) markNodes() {
	select {
	case a.nodesChanged <- struct{}{}:
	default:
	}
}

// handleNodes reserves the addresses of all nodes. It records an event on each node with an address in a pool, once for each address.
func (a *Allocator) handleNodes() {
	if a.sources.Nodes == nil {
		return
	}
	var nodes []*corev1.Node
	for _, object := range a.sources.Nodes.GetStore().List() {
		node, ok := object.(*corev1.Node)
		if !ok {
			continue
		}
		nodes = append(nodes, node)
	}
	a.mu.Lock()
	if a.allocations == nil {
		a.mu.Unlock()
		return
	}
	owners := map[netip.Addr]string{}
	byAddr := reservations(nodes, func(addr netip.Addr) bool { return a.allocations.state.Pools().Of(addr) != "" })
	for addr, node := range byAddr {
		owners[addr] = "node " + node.Name
	}
	a.allocations.state.Reserve(owners)
	inPools := a.allocations.state.Reserved()
	news := maps.Clone(inPools)
	maps.DeleteFunc(news, func(addr netip.Addr, owner string) bool { return a.warned[addr] == owner })
	a.warned = inPools
	names := map[netip.Addr]string{}
	for addr := range news {
		names[addr] = a.allocations.state.Pools().Of(addr)
	}
	a.mu.Unlock()
	for _, addr := range slices.SortedFunc(maps.Keys(news), netip.Addr.Compare) {
		a.sources.Recorder.Eventf(byAddr[addr], corev1.EventTypeWarning, EventInPool,
			"Pool %s has %s, an address of this node: no Service gets it; take it out of the pool", names[addr], addr)
	}
	a.markChanged()
}

// reservations returns which nodes keep which addresses from Services: of two with the same address the older one, and of each node as many as
// maxReserved of pools, and as many others.
func reservations(nodes []*corev1.Node, inPool func(netip.Addr) bool) map[netip.Addr]*corev1.Node {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	reserved := map[netip.Addr]*corev1.Node{}
	for _, node := range nodes {
		count := map[bool]int{}
		for _, addr := range addressesOf(node) {
			if in := inPool(addr); reserved[addr] == nil && count[in] < maxReserved {
				reserved[addr] = node
				count[in]++
			}
		}
	}
	return reserved
}

// addressesOf returns the addresses of a node, in its order.
func addressesOf(node *corev1.Node) []netip.Addr {
	var all []netip.Addr
	for _, address := range node.Status.Addresses {
		if address.Type != corev1.NodeInternalIP && address.Type != corev1.NodeExternalIP {
			continue
		}
		if addr, err := netip.ParseAddr(address.Address); err == nil {
			all = append(all, addr.Unmap().WithZone(""))
		}
	}
	return all
}
