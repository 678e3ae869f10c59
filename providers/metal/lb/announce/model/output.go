package model

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Reason says in one word why something is as it is; see the constants.
type Reason string

// The reasons of addresses. Those with the first four are announced; NodeAddress is one of a node, which has it whatever a Service shows.
const (
	Announced            Reason = "Announced"
	AnnouncedDraining    Reason = "OnlyDrainingNodes"
	AnnouncedTerminating Reason = "OnlyTerminatingEndpoints"
	AnnouncedUnconfirmed Reason = "OnlyUnconfirmedNodes"
	NoEndpoints          Reason = "NoEndpoints"
	NoNextHop            Reason = "NoNextHop"
	NoAdvertisement      Reason = "NoAdvertisement"
	NodeAddress          Reason = "AddressOfNode"
)

// The reasons of nodes that are not next hops, or not for long.
const (
	NodeUninitialized  Reason = "Uninitialized"
	NodeExcluded       Reason = "Excluded"
	NodeNotSelected    Reason = "NotSelected"
	NodeWithoutAddress Reason = "NoInternalIP"
	NodeWithoutFamily  Reason = "NoInternalIPOfFamily"
	NodeNotAnswering   Reason = "NotAnswering"
	NodeNotProbed      Reason = "NotProbedYet"
	NodeRefusing       Reason = "RefusesConnections"
	NodeFlapping       Reason = "Flapping"
	NodeDraining       Reason = "Draining"
	NodeDrained        Reason = "Drained"
	NodePortClosed     Reason = "HealthCheckNodePortClosed"
	NodeUnknown        Reason = "NoSuchNode"
	NodeNotAdvertised  Reason = "NotAdvertised"
	// NodeNotNamed is the reason of endpoints of policy Local that name no node, and counts no nodes.
	NodeNotNamed Reason = "EndpointsWithoutNode"
)

// RemovalSaidByKubeProxy is the removal of which only the node's kube-proxy knows.
const RemovalSaidByKubeProxy = "kube-proxy says so"

// RemovalByCordon is the removal of a node that is cordoned, where the config says that this drains.
const RemovalByCordon = "it is cordoned, and announcement.drainOnCordon is set"

// NextHopState says whether a node may be a next hop of load balancers.
type NextHopState int

const (
	// Out nodes get no traffic.
	Out NextHopState = iota
	// Fallback nodes are not known to work, and not known to be dead. They get traffic of addresses that have no other next hop.
	Fallback
	// Draining nodes get traffic of addresses that have no next hop that is in.
	Draining
	// In nodes may be chosen.
	In
)

// NodeState is what became of a node.
type NodeState struct {
	NextHop NextHopState
	// Reason is empty for nodes that are in.
	Reason Reason
	// Removal says by what the node is known to be about to go, and Since from when; empty if it is not.
	Removal string
	Since   time.Time
	// PodCIDRs are the ranges that are announced, and PodProblems the ranges that are not.
	PodCIDRs    []netip.Prefix
	PodProblems []PodProblem
}

// PodReason says why a range of pod addresses is not announced.
type PodReason string

// The reasons of ranges.
const (
	// PodsOfOtherNode: the owner has a part of the range, and came first or has a range of the usual length.
	PodsOfOtherNode PodReason = "OtherNode"
	// PodsWithoutAddress: the node has no InternalIP of the family.
	PodsWithoutAddress PodReason = "NoInternalIPOfFamily"
	// PodsOutside: the range is not within those of the cluster's pods.
	PodsOutside PodReason = "OutsidePodCIDRs"
	// PodsOfNoNode: the range is longer or shorter than the pod range of a node can be.
	PodsOfNoNode PodReason = "UnusualLength"
	// PodsOverPool: the range has addresses of the pool that is the owner.
	PodsOverPool PodReason = "OverlapsPool"
)

// PodProblem is a range of pod addresses that is not announced.
type PodProblem struct {
	CIDR   netip.Prefix
	Reason PodReason
	// Owner is the node or the pool that the reason is about; empty if it is about none.
	Owner string
}

// Message says why the range is not announced.
func (p PodProblem) Message() string {
	switch p.Reason {
	case PodsOfOtherNode:
		return "it overlaps the range of node " + p.Owner
	case PodsWithoutAddress:
		return "the node has no InternalIP of the same family"
	case PodsOutside:
		return "it is not within announcement.podCIDRs, or else --cluster-cidr; one of them has to be set"
	case PodsOfNoNode:
		return "the range of a node's pods is from /16 to /30, or from /48 to /126 in IPv6"
	case PodsOverPool:
		return "it overlaps pool " + p.Owner
	default:
		return string(p.Reason)
	}
}

// AddressState is what became of an address.
type AddressState struct {
	Addr netip.Addr
	Pool string
	// NextHops are sorted. None: the address is not announced.
	NextHops []netip.Addr
	Reason   Reason
	// Owner is the node whose address it is, with NodeAddress.
	Owner string
	// Out counts the nodes that could be next hops by why they are none. It is there if there is no next hop.
	Out map[Reason]int
	// Peers are the names of the BGP peers to which the address is announced, by itself or in a prefix, sorted. Nil means all.
	Peers []string
	// Without are the peers for which the address is selected, but no node can be a next hop. InPrefix are the peers that get an address of
	// a Service with policy Local as a part of a prefix only. Both are sorted.
	Without, InPrefix []string
	// Unadvertised says that there are advertisements, and none selects the address.
	Unadvertised bool
	// Blind says that no probe is answered, and the health states are those from before.
	Blind bool
	// Unproven says that no kube-proxy has ever answered where it is asked, so nodes count as working while they live.
	Unproven bool
	// Delivery says who was given the address; nil where that is not known. Only what writes conditions sets it.
	Delivery *Delivery
}

// ServiceState is what became of a Service.
type ServiceState struct {
	UID types.UID
	// Addresses are those of the Service's status, in their order.
	Addresses []AddressState
}
