package provider

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// Capable is implemented by a cloudprovider.Interface that offers more than that interface.
type Capable interface {
	// Capabilities returns what the provider offers. It is called after the provider was built and before it is
	// initialized; it must not call the cloud, and its answer must not change while the process lives.
	Capabilities() Capabilities
}

// Capabilities says what a provider offers beyond cloudprovider.Interface. The zero value is a provider that offers
// nothing more; every field has a safe meaning when it is empty.
type Capabilities struct {
	// ProviderIDSchemes are the schemes of the provider IDs that belong to this provider: "aws" for "aws:///zone/i-1".
	// A node whose provider ID has another scheme is foreign: it is never written and never asked for. The empty one stands for provider IDs
	// without a scheme. When there are none, the provider is asked for every node, as by the reference, and its answers say whose they are.
	ProviderIDSchemes []string

	// ListInstances lists every instance that may be a node of this cluster. With it, any number of nodes costs the
	// pages of one list instead of calls per node. Whether a few nodes are as they were may still be asked by InstancesV2, if it is there
	// and that costs fewer calls; a list says what has changed.
	ListInstances ListInstancesFunc

	// WatchInstances reports all instances and then each change. With it, what is known of instances that exist is current
	// without asking. That one does not exist is still only believed of a list: without ListInstances it is not used.
	WatchInstances WatchInstancesFunc

	// StandbySafe says that WatchInstances may be called before Initialize and on a replica that does not lead, so a standby knows the
	// instances when it takes over. It lists none before.
	StandbySafe bool

	// ListLoadBalancers lists every load balancer that the provider made for a cluster. With it, drift and orphans are
	// found by one call instead of one per Service. Like every list it is complete or an error.
	ListLoadBalancers func(ctx context.Context, clusterName string) ([]LoadBalancer, error)

	// LoadBalancerWrites is how many calls that change load balancers the provider bears at once, for different Services.
	// Zero means what the reference makes by default: one for Services, and one for changes of targets beside it.
	LoadBalancerWrites int

	// LoadBalancersEndWithProcess says that no call about a load balancer goes on after the process that made it: what such a call changes is the
	// API server, say, or this machine. A new leader then changes load balancers at once. Without it, it waits until the lease of a killed
	// leader would have expired.
	LoadBalancersEndWithProcess bool

	// RetryLoadBalancers reports Services that were refused a load balancer and would get it now. With it, a Service that
	// waits for something of the provider's own, such as a free address, has it at once instead of at the next try.
	RetryLoadBalancers RetryLoadBalancersFunc

	// ChangeTargets changes the targets of a Service's load balancer by a difference. With it, a load balancer is given the
	// nodes that came and went, instead of all that are there.
	ChangeTargets ChangeTargetsFunc

	// SelectsByLabels reports whether the provider's configuration has it select the targets of every load balancer by labels of nodes. Targets
	// are changed when labels do then. Where a Service's annotation asks for that, its name says so: it ends in "node-selector" or "node-labels".
	// It is called often, from any goroutine, and returns at once. Nil: no configuration does.
	SelectsByLabels func() bool

	// ReplaceRoute changes the target of a route in place, without a moment in which the destination has no route. Both
	// routes have the same DestinationCIDR; old is as ListRoutes returned it.
	ReplaceRoute func(ctx context.Context, clusterName string, old, replacement *cloudprovider.Route) error

	// ChangeRoutes makes many changes of routes by one call. With it, CreateRoute, DeleteRoute and ReplaceRoute are not called.
	ChangeRoutes ChangeRoutesFunc

	// RouteBatch is how many changes one call of ChangeRoutes takes at the most. Zero means one.
	RouteBatch int

	// RouteWrites is how many calls that change routes the provider bears at once. Zero means that it does not say, and
	// the manager's own bound holds, as in the reference.
	RouteWrites int

	// MaxRoutes is how many routes the cloud's route table takes for this cluster. Zero means unknown.
	MaxRoutes int

	// Limits are what the account bears of calls, if the provider knows. They hold where the operator says nothing.
	Limits Limits

	// NodeGroups makes and removes machines on demand, for the Cluster Autoscaler. Nil: it cannot.
	NodeGroups NodeGroups

	// RunOnEveryReplica is the part of the provider that runs on standbys as on the leader. Nil: there is no such part.
	RunOnEveryReplica RunOnEveryReplicaFunc

	// ReplicaReady returns nil once what RunOnEveryReplica does on this replica can take the place of another replica's, and
	// else says what is missing. It is part of /readyz, by which a rolling update decides to end the next replica: one that announces
	// is ready when its routers have what it announces. It is called often, from any goroutine and also before
	// RunOnEveryReplica, and returns at once. Nil: a replica is ready without.
	ReplicaReady func() error

	// Rules are the rights on the API server that the provider itself needs, beyond those of the manager and its controllers.
	// The start-up ends with their names if some are missing. ResourceNames are not
	// looked at.
	Rules []rbacv1.PolicyRule
}

// ListInstancesFunc lists all instances and hands them to yield, a page at a time, in any order.
//
// It returns nil only after yield has seen every instance: a list is complete or an error, never short. An error of
// yield ends the listing and is returned as it is. Pages are only valid during the call of yield, which is never called twice at once,
// nor after the return.
type ListInstancesFunc func(ctx context.Context, yield func(page []Instance) error) error

// CapabilitiesOf returns the capabilities of a provider, the zero value for one that declares none.
func CapabilitiesOf(cloud cloudprovider.Interface) Capabilities {
	if capable, ok := cloud.(Capable); ok {
		return capable.Capabilities()
	}
	return Capabilities{}
}
