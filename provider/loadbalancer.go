package provider

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LoadBalancer is one load balancer that the provider made for a Service of a cluster, as a list shows it.
type LoadBalancer struct {
	// Name is the cloud's name of it, for people.
	Name string
	// Service is the Service that it was made for, and ServiceUID that Service's UID. Both come from what the provider
	// wrote to the cloud when it made the load balancer; a load balancer without them is not listed.
	Service    types.NamespacedName
	ServiceUID types.UID
	// ClusterUID is what ClusterUID(ctx) returned to the call that made the load balancer or last changed it, and that the
	// provider wrote to the cloud with it, or empty if it wrote no UID. It distinguishes two clusters of one name: a load balancer
	// whose Service is gone is only ever deleted if it carries the UID of the cluster that deletes it.
	ClusterUID types.UID
	// Status is what EnsureLoadBalancer would return for it now.
	Status v1.LoadBalancerStatus
	// Ports are the listeners, each with Protocol, Port and NodePort. Nil means that the list does not say.
	Ports []v1.ServicePort
	// Targets are the nodes that traffic goes to. Nil means that the list does not say; empty means none.
	Targets []types.NodeName
}

// ChangeTargetsFunc adds nodes to the targets of a Service's load balancer, and takes others out; all other targets stay. Neither order nor
// repetition matters: what is there already is not added again, what is not there is not missed, and no node, provider ID or address is in
// both lists. Remove has of each node its name, UID, labels, provider ID and addresses, as last known.
//
// A load balancer that does not exist is an error, as is one whose targets cannot be changed now; after an error the load
// balancer is ensured with all its nodes, as after one of UpdateLoadBalancer. And as with UpdateLoadBalancer, nothing else of it
// changes.
type ChangeTargetsFunc func(ctx context.Context, clusterName string, service *v1.Service, add, remove []*v1.Node) error

// RetryLoadBalancersFunc calls retry with each Service whose load balancer could not be ensured and can be now, or may be, until
// ctx ends, and with each whose load balancer has to be ensured again although nothing of the Service has changed. It is called once the
// provider is initialized. Retry does not block, and may be called with any Service.
type RetryLoadBalancersFunc func(ctx context.Context, retry func(service types.NamespacedName))
