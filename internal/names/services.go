package names

// The conditions of a Service.
const (
	// ConditionLoadBalancerReady says whether the load balancer is as the Service asks. Its presence also says that the service
	// controller has taken the Service on.
	ConditionLoadBalancerReady = "LoadBalancerReady"
	// ReasonImplementedElsewhere goes with status Unknown: the cloud provider leaves the Service to another controller.
	ReasonImplementedElsewhere = "ImplementedElsewhere"

	// ConditionAnnounced says whether the provider metal announces the Service's addresses, or why not.
	ConditionAnnounced = "metal.mooring.dev/Announced"
	// ReasonNoSession says that the addresses have next hops, but that no router received them.
	ReasonNoSession = "NoSession"
)

// The reasons of events on a Service whose load balancer is to go. Both are the reference's.
const (
	// EventSyncFailed says that a load balancer could not be made, changed or deleted.
	EventSyncFailed = "SyncLoadBalancerFailed"
	// EventDeleteFailed says that the load balancer of a deleted Service could not be deleted.
	EventDeleteFailed = "DeleteLoadBalancerFailed"
)

// SessionEstablished is the state of a BGP session over which routes are announced, by the name of RFC 4271.
const SessionEstablished = "Established"
