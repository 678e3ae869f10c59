package sim

import (
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// The tags of a load balancer. The first two say whose it is: one with other values is never touched. The cluster's UID distinguishes
// apart clusters of one name, once the Service is gone.
const (
	TagCluster    = "sim.mooring.dev/cluster"
	TagServiceUID = "sim.mooring.dev/service-uid"
	TagService    = "sim.mooring.dev/service"
	TagClusterUID = "sim.mooring.dev/cluster-uid"
)

// The annotations of a Service that this provider understands.
const (
	// AnnotationAddressing is "ip" (the default) or "hostname": what the Service's status holds.
	AnnotationAddressing = "sim.mooring.dev/addressing"
	// AnnotationIPMode is "VIP" (the default) or "Proxy": the ipMode in the Service's status (KEP-1860).
	AnnotationIPMode = "sim.mooring.dev/ip-mode"
)

// desiredBalancer is the load balancer that a Service asks for, with its defaults filled in as the cloud does. Targets are IDs
// of instances. It reads values only.
func desiredBalancer(cluster, region string, service *v1.Service, targets []string) (api.LoadBalancerSpec, error) {
	spec := api.LoadBalancerSpec{
		Name:       cloudprovider.DefaultLoadBalancerName(service),
		Region:     region,
		Tags:       ownerTags(cluster, service),
		IPFamilies: []api.IPFamily{api.IPv4},
		Addressing: api.AddressingIP,
		IPMode:     api.IPModeVIP,
		Targets:    slices.Compact(slices.Sorted(slices.Values(targets))),
	}
	spec.Tags[TagService] = service.Namespace + "/" + service.Name
	if len(service.Spec.IPFamilies) > 0 {
		spec.IPFamilies = nil
		for _, family := range service.Spec.IPFamilies {
			spec.IPFamilies = append(spec.IPFamilies, api.IPFamily(family))
		}
	}
	if value, ok := service.Annotations[AnnotationAddressing]; ok {
		spec.Addressing = api.Addressing(value)
	}
	if value, ok := service.Annotations[AnnotationIPMode]; ok {
		spec.IPMode = api.IPMode(value)
	}
	if address := service.Spec.LoadBalancerIP; address != "" {
		spec.RequestedAddresses = []string{address}
	}
	for _, cidr := range service.Spec.LoadBalancerSourceRanges {
		spec.SourceRanges = append(spec.SourceRanges, canonicalCIDR(cidr))
	}
	if service.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal && service.Spec.HealthCheckNodePort != 0 {
		spec.HealthCheck = &api.HealthCheck{Port: service.Spec.HealthCheckNodePort, Path: "/healthz"}
	}
	var err error
	spec.Listeners, err = desiredListeners(service)
	return spec, err
}

func desiredListeners(service *v1.Service) ([]api.Listener, error) {
	var listeners []api.Listener
	for _, port := range service.Spec.Ports {
		if port.NodePort == 0 {
			return nil, fmt.Errorf("port %d of service %s/%s has no node port, which load balancers of this cloud need: "+
				"set allocateLoadBalancerNodePorts", port.Port, service.Namespace, service.Name)
		}
		listeners = append(listeners, api.Listener{
			Name: port.Name, Protocol: api.Protocol(port.Protocol), Port: port.Port, TargetPort: port.NodePort,
		})
	}
	return listeners, nil
}

// ownerTags say which Service of which cluster a load balancer belongs to.
func ownerTags(cluster string, service *v1.Service) map[string]string {
	return map[string]string{TagCluster: cluster, TagServiceUID: string(service.UID)}
}

// withClusterUID adds the UID of the cluster to a load balancer's tags. One that the caller does not know stays as it was tagged.
func withClusterUID(tags map[string]string, uid types.UID, observed *api.LoadBalancer) {
	if uid == "" && observed != nil {
		uid = types.UID(observed.Tags[TagClusterUID])
	}
	if uid != "" {
		tags[TagClusterUID] = string(uid)
	}
}

// canonicalCIDR drops the host bits, which Kubernetes allows and the cloud does not. What is no CIDR the cloud refuses.
func canonicalCIDR(cidr string) string {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return cidr
	}
	return prefix.Masked().String()
}

// statusOf is what a Service shows of an active load balancer.
func statusOf(balancer api.LoadBalancer) *v1.LoadBalancerStatus {
	status := &v1.LoadBalancerStatus{}
	if balancer.Hostname != "" {
		status.Ingress = append(status.Ingress, v1.LoadBalancerIngress{Hostname: balancer.Hostname})
		return status
	}
	mode := v1.LoadBalancerIPMode(balancer.IPMode)
	for _, address := range balancer.Addresses {
		status.Ingress = append(status.Ingress, v1.LoadBalancerIngress{IP: address, IPMode: &mode})
	}
	return status
}
