package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Announced reports whether all addresses of the Service are announced; one without an address is not.
func (s ServiceState) Announced() bool { return s.failing() == nil && len(s.Addresses) > 0 }

// failing returns the first address that is not announced, or nil if all are announced.
func (s ServiceState) failing() *AddressState {
	for i := range s.Addresses {
		if !s.Addresses[i].announced() {
			return &s.Addresses[i]
		}
	}
	return nil
}

// NoAddress is the reason of a Service that has no address yet.
const NoAddress Reason = "NoAddress"

// ProbesFail is the reason of a Service that is announced although no probe is answered.
const ProbesFail Reason = "ProbesFail"

// Reason returns the reason that matters most: the reason of the first address that is not announced, or else of the first that is not
// simply Announced.
func (s ServiceState) Reason() Reason {
	if len(s.Addresses) == 0 {
		return NoAddress
	}
	if failing := s.failing(); failing != nil {
		return failing.reason()
	}
	if s.Addresses[0].Blind {
		return ProbesFail
	}
	for _, address := range s.Addresses {
		if address.Reason != Announced {
			return address.Reason
		}
	}
	return Announced
}

// Message says in a sentence for each address what is announced, or why it is not and what to look at.
func (s ServiceState) Message() string {
	if len(s.Addresses) == 0 {
		return "The Service has no address yet"
	}
	messages := make([]string, len(s.Addresses))
	for i, address := range s.Addresses {
		messages[i] = address.message()
	}
	return strings.Join(messages, "; ")
}

func (a AddressState) message() string {
	name := a.Addr.String()
	if a.Pool == "" {
		name += " (no longer in a pool)"
	}
	switch a.reason() {
	case NoSession:
		return a.noSession(name)
	case NotAnswered:
		return name + " is not announced: " + cmp.Or(a.Delivery.Unanswered, "neither l2.pools nor l2.advertisements name its pool")
	case NoEndpoints:
		return name + " is not announced: the Service has no endpoint of this family that is ready"
	case NoNextHop:
		return name + " is not announced: " + a.census()
	case NodeAddress:
		return name + " is not announced: it is an address of node " + a.Owner
	case NoAdvertisement:
		return name + " is not announced: " + unadvertised
	}
	result := fmt.Sprintf("%s is announced with %s", name, counted(len(a.NextHops), "next hop", "next hops"))
	switch a.Reason {
	case AnnouncedDraining:
		result += ", all on nodes that are being removed"
	case AnnouncedTerminating:
		result += ", all with endpoints that are terminating"
	case AnnouncedUnconfirmed:
		result += ", as no node is known to serve it: their kube-proxies refuse connections, are flapping, or have not been asked yet"
	}
	if a.Unproven && !a.Blind {
		result += "; kube-proxy's health port answers on no node, so nodes count as working while they live:" +
			" set announcement.health.kubeProxyProbe or kubeProxyPort"
	}
	result += a.Delivery.to() + a.restrictions() + a.Delivery.unanswered()
	if a.Blind {
		result += "; no node answers a probe, so the last known states are kept: check the network of this replica"
	}
	return result
}

const unadvertised = "none of bgp.advertisements selects it for any peer"

// restrictions say to which peers an address is not announced although others get it, as the end of a sentence.
func (a AddressState) restrictions() string {
	result := ""
	if a.Unadvertised {
		result += "; no router gets it: " + unadvertised
	}
	if len(a.Without) > 0 {
		result += "; not to " + strings.Join(a.Without, ", ") +
			": no next hop has an address in its nextHopSubnets and is selected by its advertisements"
	}
	if len(a.InPrefix) > 0 {
		result += "; to " + strings.Join(a.InPrefix, ", ") +
			" in an aggregate only, by nodes that need not have endpoints of the Service: add an advertisement without aggregationLength"
	}
	return result
}

// census says why none of the nodes is a next hop, the most frequent reason first.
func (a AddressState) census() string {
	if len(a.Out) == 0 {
		return "there is no node"
	}
	if _, unnamed := a.Out[NodeNotNamed]; unnamed {
		return "externalTrafficPolicy is Local, and none of the endpoints has a nodeName, so no node is known to serve them"
	}
	order := func(x, y Reason) int { return cmp.Or(cmp.Compare(a.Out[y], a.Out[x]), cmp.Compare(x, y)) }
	var parts []string
	for _, reason := range slices.SortedFunc(maps.Keys(a.Out), order) {
		parts = append(parts, fmt.Sprintf("%s %s", counted(a.Out[reason], "node", "nodes"), reason.explanation(a.Addr.Is6())))
	}
	return "no node may be a next hop: " + strings.Join(parts, ", ")
}

// explanation continues "so many nodes".
func (r Reason) explanation(is6 bool) string {
	switch r {
	case NodeUninitialized:
		return "not initialized by a cloud provider yet"
	case NodeExcluded:
		return "labeled node.kubernetes.io/exclude-from-external-load-balancers"
	case NodeNotSelected:
		return "not selected by announcement.nodeSelector"
	case NodeWithoutAddress:
		return "without an InternalIP"
	case NodeWithoutFamily:
		if is6 {
			return "without an IPv6 InternalIP"
		}
		return "without an IPv4 InternalIP"
	case NodeNotAnswering:
		return "whose kube-proxy does not answer its health check"
	case NodeNotProbed:
		return "whose kube-proxy has not answered often enough yet"
	case NodeRefusing:
		return "whose kube-proxy refuses connections"
	case NodeFlapping:
		return "that failed again and again, and has not answered for long enough yet"
	case NodeDraining, NodeDrained:
		return "being removed"
	case NodePortClosed:
		return "with endpoints, whose kube-proxy does not confirm it on the health-check node port"
	case NodeNotAdvertised:
		return "that bgp.advertisements or nextHopSubnets leave out"
	case NodeUnknown:
		return "with endpoints that this provider does not know"
	default:
		return string(r)
	}
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// String returns the state as in status and metrics.
func (s NextHopState) String() string {
	switch s {
	case In:
		return "in"
	case Draining:
		return "draining"
	case Fallback:
		return "fallback"
	default:
		return "out"
	}
}
