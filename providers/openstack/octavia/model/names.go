package model

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

// NamePrefix begins the names and tags by which cloud-provider-openstack knows its load balancers. A tag with it is a Service that shares
// the load balancer.
const NamePrefix = "kube_service_"

// FloatingIPPrefix begins the description of floating IPs that cloud-provider-openstack made: those it deletes.
const FloatingIPPrefix = "Floating IP for Kubernetes external service "

// maxLength is how long names and tags may be in octavia.
const maxLength = 255

// Name is the name of a Service's load balancer, as cloud-provider-openstack makes it; so are the other names and descriptions here. Its
// page "Exposing applications using services of LoadBalancer type" shows the name as the load balancer's name and tag.
func Name(cluster string, service types.NamespacedName) string {
	return cut(fmt.Sprintf("%s%s_%s_%s", NamePrefix, cluster, service.Namespace, service.Name))
}

// Description is the description of a Service's load balancer.
func Description(cluster string, service types.NamespacedName) string {
	return cut(fmt.Sprintf("Kubernetes external service %s from cluster %s", service, cluster))
}

// FloatingIPDescription is the description of a Service's floating IP.
func FloatingIPDescription(cluster string, service types.NamespacedName) string {
	return cut(fmt.Sprintf("%s%s from cluster %s", FloatingIPPrefix, service, cluster))
}

// ListenerName is the name of a load balancer's listener for the Service's port of this index.
func ListenerName(index int, balancer string) string {
	return cut(fmt.Sprintf("listener_%d_%s", index, balancer))
}

// PoolName is the name of the pool behind that listener.
func PoolName(index int, balancer string) string {
	return cut(fmt.Sprintf("pool_%d_%s", index, balancer))
}

// MonitorName is the name of that pool's monitor.
func MonitorName(index int, balancer string) string {
	return cut(fmt.Sprintf("monitor_%d_%s", index, balancer))
}

// SecurityGroupName is the name of the group that opens the node ports of a Service.
func SecurityGroupName(service types.NamespacedName, uid types.UID) string {
	return cut(fmt.Sprintf("lb-sg-%s-%s-%s", uid, service.Namespace, service.Name))
}

func cut(name string) string {
	if len(name) <= maxLength {
		return name
	}
	end := maxLength
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

// The tags of our own. They say more than the names of cloud-provider-openstack, which passes over them (ADR 36).
const (
	tagPrefix   = "mooring.dev/"
	tagCluster  = tagPrefix + "cluster="
	tagService  = tagPrefix + "service="
	tagHostname = tagPrefix + "hostname="

	// KeepTag says that the floating IP outlives the load balancer, for when the Service is gone.
	KeepTag = tagPrefix + "keep-floatingip"
)

// Owner is a Service that a load balancer serves, as a tag holds it.
type Owner struct {
	ClusterUID types.UID
	UID        types.UID
	Service    types.NamespacedName
}

// ClusterTag is the tag of all that belongs to a cluster, by which it is listed.
func ClusterTag(cluster string) string { return cut(tagCluster + cluster) }

// Tag is the tag of a load balancer that serves the Service.
func (o Owner) Tag() string {
	return fmt.Sprintf("%s%s/%s/%s", tagService, o.ClusterUID, o.UID, o.Service)
}

// Owners returns the Services that tags name.
func Owners(tags []string) []Owner {
	var owners []Owner
	for _, tag := range tags {
		rest, found := strings.CutPrefix(tag, tagService)
		parts := strings.Split(rest, "/")
		if found && len(parts) == 4 {
			owners = append(owners, Owner{ClusterUID: types.UID(parts[0]), UID: types.UID(parts[1]),
				Service: types.NamespacedName{Namespace: parts[2], Name: parts[3]}})
		}
	}
	return owners
}

// HostnameTag holds the hostname that a Service shows instead of an address, for the list of load balancers.
func HostnameTag(hostname string) string { return cut(tagHostname + hostname) }

// Hostname returns the hostname that tags hold, empty if none.
func Hostname(tags []string) string {
	for _, tag := range tags {
		if hostname, found := strings.CutPrefix(tag, tagHostname); found {
			return hostname
		}
	}
	return ""
}

// Describes reports whether a tag of our own describes the load balancer's Service, so an old one goes when it is no longer wanted.
func Describes(tag string) bool { return tag == KeepTag || strings.HasPrefix(tag, tagHostname) }

// Sharers returns the tags of Services that share a load balancer.
func Sharers(tags []string) []string {
	var sharers []string
	for _, tag := range tags {
		if strings.HasPrefix(tag, NamePrefix) {
			sharers = append(sharers, tag)
		}
	}
	return sharers
}
