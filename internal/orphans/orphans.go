// Package orphans decides which objects of a cloud lost their object in the cluster. It also decides whether they are this cluster's beyond doubt. It
// is pure. The service controller acts on it, and the tool shows it to operators.
package orphans

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// Balancer is a load balancer in the cloud whose Service does not exist.
type Balancer struct {
	provider.LoadBalancer
	// Proven says that it is this cluster's. One that is not proven may be another cluster's of the same name.
	Proven bool
}

// Balancers returns the load balancers whose Service does not exist and that do not say that they belong to another cluster.
// Live holds the UIDs of all Services, listed after the cloud was. ClusterUID is empty if it is not known, and then nothing is
// proven.
func Balancers(listed []provider.LoadBalancer, live map[types.UID]bool, clusterUID types.UID) []Balancer {
	var found []Balancer
	for _, balancer := range listed {
		if balancer.ServiceUID == "" || live[balancer.ServiceUID] || (balancer.ClusterUID != "" && balancer.ClusterUID != clusterUID) {
			continue
		}
		found = append(found, Balancer{balancer, clusterUID != "" && balancer.ClusterUID == clusterUID})
	}
	return found
}

// AsService returns the Service that the load balancer was made for, as far as the cloud knows it.
func (b Balancer) AsService() *corev1.Service {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: b.Ports}}
	service.Namespace, service.Name, service.UID = b.Service.Namespace, b.Service.Name, b.ServiceUID
	return service
}

// Route is a route in the cloud that leads to no node.
type Route struct {
	*cloudprovider.Route
	// Proven says that it is this cluster's, as far as that can be known.
	Proven bool
}

// Routes returns the routes that lead to no node. Nodes are all nodes of the cluster, foreign ones included, listed after the cloud. A route does not
// say which cluster made it. It counts as this cluster's only if three conditions hold. It lies wholly within one of the ranges, and no node has pods
// there. Another route of the list leads to a node. The last condition shows that cloud and cluster belong together. The ranges must be ranges of
// this cluster, and of no other with its name and its route table. No ranges prove nothing.
func Routes(listed []*cloudprovider.Route, nodes []corev1.Node, ranges []netip.Prefix) []Route {
	names, pods := map[types.NodeName]bool{}, []netip.Prefix{}
	for i := range nodes {
		names[types.NodeName(nodes[i].Name)] = true
		for _, cidr := range slices.Concat(nodes[i].Spec.PodCIDRs, []string{nodes[i].Spec.PodCIDR}) {
			if prefix, err := netip.ParsePrefix(cidr); err == nil {
				pods = append(pods, prefix.Masked())
			}
		}
	}
	related := slices.ContainsFunc(listed, func(route *cloudprovider.Route) bool { return route != nil && names[route.TargetNode] })
	var found []Route
	for _, route := range listed {
		if route == nil || names[route.TargetNode] {
			continue
		}
		destination, err := netip.ParsePrefix(route.DestinationCIDR)
		inUse := slices.ContainsFunc(pods, destination.Overlaps)
		found = append(found, Route{route, err == nil && related && within(destination, ranges) && !inUse})
	}
	return found
}

// within reports whether one of the ranges contains the whole destination.
func within(destination netip.Prefix, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(outer netip.Prefix) bool {
		return outer.Bits() <= destination.Bits() && outer.Masked().Contains(destination.Addr())
	})
}
