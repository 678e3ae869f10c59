package announce

import (
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

const (
	// AnnotationDrain on a node takes it out of the next hops before it is removed, or for maintenance. Any value but one that says
	// no, such as "false", counts.
	AnnotationDrain = "metal.mooring.dev/drain"
	// conditionReady is the condition by which the service controller of Mooring says that it has taken a Service on.
	conditionReady = names.ConditionLoadBalancerReady
)

// TakenOn reports whether the service controller has taken a Service on, so the addresses in its status are of our pools, or
// were when it got them.
func TakenOn(service *corev1.Service) bool {
	for _, condition := range service.Status.Conditions {
		if condition.Type == conditionReady {
			return condition.Status != "Unknown" // which says that the Service is left to others
		}
	}
	return false
}

func nodeOf(node *corev1.Node) model.Node {
	result := model.Node{
		Name: node.Name, UID: node.UID, Created: node.CreationTimestamp.Time, Labels: node.Labels, Removal: removalOf(node),
		Cordoned: node.Spec.Unschedulable,
	}
	for _, address := range node.Status.Addresses {
		parsed, err := netip.ParseAddr(address.Address)
		switch {
		case err != nil:
		case address.Type == corev1.NodeInternalIP:
			result.Addresses = append(result.Addresses, parsed.Unmap())
		case address.Type == corev1.NodeExternalIP:
			result.External = append(result.External, parsed.Unmap())
		}
	}
	cidrs := node.Spec.PodCIDRs
	if len(cidrs) == 0 && node.Spec.PodCIDR != "" {
		cidrs = []string{node.Spec.PodCIDR}
	}
	for _, cidr := range cidrs {
		if parsed, err := netip.ParsePrefix(cidr); err == nil {
			result.PodCIDRs = append(result.PodCIDRs, parsed.Masked())
		}
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == cloudproviderapi.TaintExternalCloudProvider {
			result.Uninitialized = true
		}
	}
	if value, labeled := node.Labels[corev1.LabelNodeExcludeBalancers]; labeled {
		result.Excluded = affirmative(value)
	}
	return result
}

// removalOf says by what a node is known to be about to go; empty if it is not.
func removalOf(node *corev1.Node) string {
	if !node.DeletionTimestamp.IsZero() {
		return "the Node is being deleted"
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == names.TaintToBeDeleted {
			return "it has the taint " + names.TaintToBeDeleted
		}
	}
	if value, annotated := node.Annotations[AnnotationDrain]; annotated && affirmative(value) {
		return "it has the annotation " + AnnotationDrain
	}
	return ""
}

// affirmative reports whether the value of a label or annotation, the presence of which says yes, does not say no.
func affirmative(value string) bool {
	said, err := strconv.ParseBool(value)
	return err != nil || said
}

func keyOf(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// serviceOf returns false for a Service that has no load balancer, or is about to lose it.
func serviceOf(service *corev1.Service) (model.Service, bool) {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || !service.DeletionTimestamp.IsZero() {
		return model.Service{}, false
	}
	result := model.Service{
		Key: keyOf(service.Namespace, service.Name), UID: service.UID, Labels: service.Labels,
		Affinity: service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP,
	}
	if service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		result.Local, result.HealthCheckNodePort = true, service.Spec.HealthCheckNodePort
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if addr, err := netip.ParseAddr(ingress.IP); err == nil {
			result.Addresses = append(result.Addresses, addr.Unmap())
		}
	}
	return result, true
}

// endpointSlice is what of an EndpointSlice decides.
type endpointSlice struct {
	service   types.NamespacedName
	family    model.Family
	endpoints model.Endpoints
}

// sliceOf returns false for an EndpointSlice that is of no Service, or not of addresses.
func sliceOf(object *discoveryv1.EndpointSlice) (endpointSlice, bool) {
	result := endpointSlice{service: keyOf(object.Namespace, object.Labels[discoveryv1.LabelServiceName])}
	switch object.AddressType {
	case discoveryv1.AddressTypeIPv4:
		result.family = model.IPv4
	case discoveryv1.AddressTypeIPv6:
		result.family = model.IPv6
	default:
		return endpointSlice{}, false
	}
	for i := range object.Endpoints {
		endpoint := &object.Endpoints[i]
		ready := ptr.Deref(endpoint.Conditions.Ready, true)
		ending := !ready && ptr.Deref(endpoint.Conditions.Serving, false) && ptr.Deref(endpoint.Conditions.Terminating, false)
		if !ready && !ending {
			continue
		}
		result.endpoints.Any = true
		switch node := ptr.Deref(endpoint.NodeName, ""); {
		case node == "":
		case ready:
			result.endpoints.Ready = with(result.endpoints.Ready, node)
		default:
			result.endpoints.Terminating = with(result.endpoints.Terminating, node)
		}
	}
	return result, result.service.Name != ""
}

func with(set map[string]bool, name string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[name] = true
	return set
}

// merged puts the slices of a Service together.
func merged(slices map[string]endpointSlice) model.ByFamily {
	var result model.ByFamily
	for _, slice := range slices {
		of := &result[slice.family]
		of.Any = of.Any || slice.endpoints.Any
		for node := range slice.endpoints.Ready {
			of.Ready = with(of.Ready, node)
		}
		for node := range slice.endpoints.Terminating {
			of.Terminating = with(of.Terminating, node)
		}
	}
	return result
}

// targetsOf says what is to be probed: kube-proxy of each node that may be a next hop, and the health-check node ports of Services
// with policy Local on the nodes that have endpoints of them. A node is probed at an address at which traffic arrives.
func targetsOf(in Input, advertising *Advertising) map[model.Probe]netip.Addr {
	targets, at := map[model.Probe]netip.Addr{}, map[string]netip.Addr{}
	for name, node := range in.Nodes {
		if node.Uninitialized || in.Settings.excludes(node) || len(node.Addresses) == 0 || !in.Settings.Selector.Matches(labels.Set(node.Labels)) {
			continue
		}
		at[name] = advertising.probed(node)
		if !in.Settings.Unprobed {
			targets[model.Probe{Node: name}] = at[name]
		}
	}
	for key, service := range in.Services {
		if service.HealthCheckNodePort == 0 || len(service.Addresses) == 0 {
			continue
		}
		for _, endpoints := range in.Endpoints[key] {
			for node := range endpoints.Ready {
				if addr, may := at[node]; may {
					targets[model.Probe{Node: node, Port: service.HealthCheckNodePort}] = addr
				}
			}
		}
	}
	return targets
}
