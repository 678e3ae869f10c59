package conformance

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// Factory makes what a rule is tried on. It is called once for each rule, and may return the same subject every time or a
// fresh cloud.
type Factory func(ctx context.Context) (*Subject, error)

// Subject is a provider and what can be done to its cloud.
type Subject struct {
	// Cloud is the provider, initialized. Required.
	Cloud cloudprovider.Interface
	// Instances exist and run for as long as the subject is used. They are looked at, are targets of load balancers and routes
	// of the suite, and are never changed. Rules that need one use these when there is no CreateInstance.
	Instances []Instance
	// NodeGroup is the ID of a node group that rules may increase by two, and of which they delete what they have made. Empty: the rules
	// that need it are reported as not run.
	NodeGroup string
	// Hooks do what cloudprovider.Interface cannot.
	Hooks Hooks
	// Close is called when the rule has ended and what it made is removed. Nil is fine.
	Close func(ctx context.Context) error
}

// Instance is an instance that can be the machine of a node.
type Instance struct {
	// NodeName is the name under which its kubelet would register.
	NodeName types.NodeName
	// ProviderID is found out by NodeName when it is empty.
	ProviderID string
}

// Hooks reach behind the provider, into its cloud. Any of them may be nil: the rules that need it are then reported as not run.
// A hook returns when the provider can see what it did.
type Hooks struct {
	// CreateInstance creates an instance that runs, whose node will have that name.
	CreateInstance func(ctx context.Context, name string) (Instance, error)
	// StopInstance shuts an instance down that CreateInstance created. It still exists.
	StopInstance func(ctx context.Context, instance Instance) error
	// DeleteInstance deletes an instance that CreateInstance created.
	DeleteInstance func(ctx context.Context, instance Instance) error
	// InspectLoadBalancer looks at the Service's load balancer in the cloud, past the provider.
	InspectLoadBalancer func(ctx context.Context, clusterName string, service *v1.Service) (*LoadBalancerView, error)
	// OtherCluster returns a provider that is configured for another cluster in the same account, and that cluster's name.
	OtherCluster func(ctx context.Context) (cloud cloudprovider.Interface, clusterName string, err error)
	// InjectFault makes every call of the provider to its cloud go wrong in that way until end is called.
	InjectFault func(ctx context.Context, fault Fault) (end func(), err error)
}

// LoadBalancerView is what a load balancer is in the cloud. A nil field means that it cannot be known, or that the cloud has no such
// thing.
type LoadBalancerView struct {
	// Targets are the nodes that traffic goes to.
	Targets []types.NodeName
	// Ports are the listeners, each with Protocol, Port and NodePort.
	Ports []v1.ServicePort
	// SourceRanges are the CIDRs that may connect; empty means everybody.
	SourceRanges []string
	// HealthCheckPort is the port by which targets are checked.
	HealthCheckPort *int32
}

// Fault is a way in which the cloud fails.
type Fault string

// The faults that Hooks.InjectFault is asked for.
const (
	// FaultError is a failure of the cloud itself, such as a 500 or a 503: it says nothing about what exists.
	FaultError Fault = "error"
	// FaultThrottle is a refusal because of a quota, such as a 429.
	FaultThrottle Fault = "throttle"
	// FaultHang is a call that gets no answer.
	FaultHang Fault = "hang"
)
