package octavia

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// request is what a Service asks for, and where it asks.
type request struct {
	cluster    string
	clusterUID types.UID
	service    *v1.Service
	nodes      []*v1.Node
	settings   annotations.Settings
	options    annotations.Options
	// goes says that the Service is to have no load balancer, or that it is asked whether it has one.
	goes bool
}

func (r request) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.service.Namespace, Name: r.service.Name}
}

// name is the name of the Service's own load balancer, and the tag of all that it has in a shared one.
func (r request) name() string { return model.Name(r.cluster, r.key()) }

func (r request) owner() model.Owner {
	return model.Owner{ClusterUID: r.clusterUID, UID: r.service.UID, Service: r.key()}
}

// childTags are the tags of listeners, pools and monitors: the first is how cloud-provider-openstack finds its listeners.
func (r request) childTags() []string { return []string{r.name(), model.ClusterTag(r.cluster)} }

// family is the IP family of the VIP and of the members: the Service's first.
func (r request) family() v1.IPFamily {
	if len(r.service.Spec.IPFamilies) > 0 {
		return r.service.Spec.IPFamilies[0]
	}
	return ""
}

// desired is the load balancer that a Service asks for, with all that is below it. Its error says all that is wrong with the Service.
func desired(r request) (model.LoadBalancer, error) {
	s, driver := r.settings, r.options.Driver()
	balancer := model.LoadBalancer{
		Name: r.name(), Description: model.Description(r.cluster, r.key()), Provider: driver,
		Tags:      []string{r.name(), model.ClusterTag(r.cluster), r.owner().Tag()},
		VIPPortID: s.PortID,
	}
	if s.Hostname != "" {
		balancer.Tags = append(balancer.Tags, model.HostnameTag(s.Hostname))
	}
	if s.KeepFloatingIP {
		balancer.Tags = append(balancer.Tags, model.KeepTag)
	}
	if driver != annotations.DriverOVN {
		balancer.FlavorID, balancer.AvailabilityZone = s.FlavorID, s.AvailabilityZone
	}
	if s.PortID == "" {
		balancer.VIPSubnetID, balancer.VIPNetworkID = s.SubnetID, s.NetworkID
	}
	// An external load balancer with IPv4 has the address of its floating IP.
	if s.Internal || r.family() == v1.IPv6Protocol {
		balancer.VIPAddress = r.service.Spec.LoadBalancerIP
	}
	ranges, err := sourceRanges(r.service)
	problems := []error{err}
	if len(r.service.Spec.Ports) == 0 {
		problems = append(problems, errors.New("the Service has no ports"))
	}
	if driver == annotations.DriverOVN && r.options.ManageSecurityGroups {
		ranges = nil // the security group holds them
	}
	for index, port := range r.service.Spec.Ports {
		if port.NodePort == 0 {
			problems = append(problems, fmt.Errorf("port %d has no node port, which octavia's members need: set allocateLoadBalancerNodePorts", port.Port))
			continue
		}
		listener := desiredListener(r, index, port)
		listener.AllowedCIDRs = ranges
		balancer.Listeners = append(balancer.Listeners, listener)
	}
	return balancer, errors.Join(problems...)
}

// desiredListener is the listener for a port of the Service, with its pool. What is of HTTP, TLS or the PROXY protocol is for TCP.
func desiredListener(r request, index int, port v1.ServicePort) model.Listener {
	s, name, isTCP := r.settings, r.name(), port.Protocol == v1.ProtocolTCP || port.Protocol == ""
	listener := model.Listener{
		Name: model.ListenerName(index, name), Protocol: model.Transport(string(port.Protocol)), Port: int(port.Port),
		Tags: r.childTags(), ConnectionLimit: s.ConnectionLimit,
	}
	if r.options.Driver() != annotations.DriverOVN {
		timeouts := model.Timeouts(s.Timeouts)
		listener.Timeouts = &timeouts
	}
	pool := model.Pool{Name: model.PoolName(index, name), Protocol: listener.Protocol, Algorithm: s.Method, Tags: r.childTags()}
	if r.service.Spec.SessionAffinity == v1.ServiceAffinityClientIP {
		pool.Persistence = "SOURCE_IP"
	}
	if isTCP {
		listener.XForwardedFor, listener.TLSContainerRef = s.XForwardedFor, s.TLSContainerRef
		switch {
		case s.TLSContainerRef != "":
			listener.Protocol, pool.Protocol = "TERMINATED_HTTPS", "HTTP"
		case s.XForwardedFor:
			listener.Protocol, pool.Protocol = "HTTP", "HTTP"
		}
		if s.ProxyProtocol != "" {
			pool.Protocol = s.ProxyProtocol
		}
	}
	checksNodes := asksHealthCheckPort(r)
	if s.Monitor.Enabled {
		pool.Monitor = desiredMonitor(r, index, string(port.Protocol), checksNodes)
	}
	pool.Members = desiredMembers(r, int(port.NodePort), checksNodes)
	listener.Pool = pool
	return listener
}

// asksHealthCheckPort reports whether monitors ask the Service's health check node port, which says whether a node has endpoints. The
// driver ovn has no HTTP monitors.
func asksHealthCheckPort(r request) bool {
	return r.settings.Monitor.Enabled && r.options.Driver() != annotations.DriverOVN && r.service.Spec.HealthCheckNodePort > 0 &&
		r.service.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal
}

func desiredMonitor(r request, index int, protocol string, http bool) *model.Monitor {
	m := r.settings.Monitor
	monitor := &model.Monitor{
		Name: model.MonitorName(index, r.name()), Type: model.Transport(protocol), Tags: r.childTags(),
		Delay: m.Delay, Timeout: m.Timeout, MaxRetries: m.MaxRetries, MaxRetriesDown: m.MaxRetriesDown,
	}
	if monitor.Type == "UDP" {
		monitor.Type = "UDP-CONNECT"
	}
	if http {
		monitor.Type, monitor.URLPath, monitor.HTTPMethod, monitor.ExpectedCodes = "HTTP", "/healthz", "GET", "200"
	}
	return monitor
}

// desiredMembers are the nodes that the Service's selector takes and that have an address of the family.
func desiredMembers(r request, nodePort int, checksNodes bool) []model.Member {
	members := []model.Member{}
	for _, node := range r.nodes {
		address := nodeAddress(node, r.family())
		if address == "" || !selected(node, r.settings.NodeSelector) {
			continue
		}
		member := model.Member{Name: node.Name, Address: address, Port: nodePort, SubnetID: r.settings.MemberSubnetID}
		if checksNodes {
			member.MonitorPort = int(r.service.Spec.HealthCheckNodePort)
		}
		members = append(members, member)
	}
	model.SortMembers(members)
	return slices.CompactFunc(members, func(a, b model.Member) bool { return a.Address == b.Address })
}

// selected reports whether a node has all labels of the selector.
func selected(node *v1.Node, selector map[string]string) bool {
	for key, wanted := range selector {
		if value, found := node.Labels[key]; !found || (wanted != "" && value != wanted) {
			return false
		}
	}
	return true
}

// nodeAddress is the internal address of a node, or else the external one, or empty if the node has no address of the family.
func nodeAddress(node *v1.Node, family v1.IPFamily) string {
	for _, kind := range []v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP} {
		for _, address := range node.Status.Addresses {
			parsed, err := netip.ParseAddr(address.Address)
			if address.Type != kind || err != nil || (family == v1.IPv4Protocol) && !parsed.Is4() || (family == v1.IPv6Protocol) && !parsed.Is6() {
				continue
			}
			return parsed.String()
		}
	}
	return ""
}

// sourceRanges are the CIDRs that a Service allows, sorted and without host bits; none if it allows everybody.
func sourceRanges(service *v1.Service) ([]string, error) {
	given, where := service.Spec.LoadBalancerSourceRanges, "spec.loadBalancerSourceRanges"
	if value := strings.TrimSpace(service.Annotations[v1.AnnotationLoadBalancerSourceRangesKey]); len(given) == 0 && value != "" {
		given, where = strings.Split(value, ","), "annotation "+v1.AnnotationLoadBalancerSourceRangesKey
	}
	var ranges []string
	var problems []error
	for _, cidr := range given {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %q is no range such as 192.0.2.0/24", where, cidr))
			continue
		}
		ranges = append(ranges, prefix.Masked().String())
	}
	return normalCIDRs(ranges), errors.Join(problems...)
}

// normalCIDRs returns ranges sorted, and none if they allow everybody of a family, which cloud-provider-openstack writes out.
func normalCIDRs(ranges []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(ranges)))
	if slices.Equal(sorted, []string{"0.0.0.0/0"}) || slices.Equal(sorted, []string{"::/0"}) {
		return nil
	}
	return sorted
}
