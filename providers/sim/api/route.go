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
	// TargetName is the name of the target instance; empty if that does not exist any more.
	TargetName string `json:"targetName,omitempty"`
	// Blackhole says that the target does not exist any more: packets are dropped.
	Blackhole bool `json:"blackhole,omitempty"`
	// CreatedAt is when the cloud accepted the route.
	CreatedAt time.Time `json:"createdAt"`
}
