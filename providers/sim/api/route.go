package api

import "time"

// RouteSpec is what a client asks for. Of a route only the target can be changed.
type RouteSpec struct {
	// Cluster is the name of the cluster that owns the route.
	Cluster string `json:"cluster"`
	// Name is free, for people.
	Name string `json:"name,omitempty"`
	// DestinationCIDR is unique within a cluster, in the form of RFC 4632 or RFC 4291 without host bits.
	DestinationCIDR string `json:"destinationCIDR"`
	// TargetInstance is the ID of the instance to which packets go.
	TargetInstance string `json:"targetInstance"`
}

// Route is a route of the cloud.
type Route struct {
	RouteSpec
	// ID is given by the cloud and never given again.
	ID string `json:"id"`
	// TargetName is the name of the target instance; empty if that no longer exists.
	TargetName string `json:"targetName,omitempty"`
	// Blackhole says that the target no longer exists: packets are dropped.
	Blackhole bool `json:"blackhole,omitempty"`
	// CreatedAt is when the cloud accepted the route.
	CreatedAt time.Time `json:"createdAt"`
}

// MaxRouteChanges is how many changes one call of ChangeRoutes may hold.
const MaxRouteChanges = 100

// RouteChange is one of the changes of a call of ChangeRoutes: a creation, a replacement as by ReplaceRoute, or a deletion.
type RouteChange struct {
	// ID is the route to replace or to delete; empty for a creation.
	ID string `json:"id,omitempty"`
	// Spec is the route to make; nil for a deletion.
	Spec *RouteSpec `json:"spec,omitempty"`
	// TargetName is the name of the instance to which packets go, where the spec has no TargetInstance.
	TargetName string `json:"targetName,omitempty"`
}

// RouteChanges is what a client asks for by ChangeRoutes.
type RouteChanges struct {
	// Changes are made in their order, 1 to MaxRouteChanges. One that cannot be made holds up no other.
	Changes []RouteChange `json:"changes"`
}

// RouteResult is what became of one change.
type RouteResult struct {
	// Status is the HTTP status that the change would have had as a call of its own.
	Status int `json:"status"`
	// Route is the route that was made; nil for a deletion and for a change that was not made.
	Route *Route `json:"route,omitempty"`
	// Error says why the change was not made; nil if it was.
	Error *Error `json:"error,omitempty"`
}

// RouteResults is the answer of ChangeRoutes.
type RouteResults struct {
	// Results has one for each change, in their order.
	Results []RouteResult `json:"results"`
}
