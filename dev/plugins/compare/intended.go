package compare

// OfServices are the differences that every scenario with load balancers shows.
func OfServices() []Intended {
	return []Intended{
		{
			Name:      "who says what was done for a Service",
			Reason:    "Mooring's events come from the controller by the name that --controllers knows; their reasons are the reference's",
			Fact:      `event/service/.*/Normal/(Ensuring|Ensured|Updated|Deleting|Deleted)LoadBalancer`,
			Reference: `service-controller: .*`,
			Mooring:   `service-lb-controller: .*`,
		},
		{
			Name:      "a condition on Services",
			Reason:    "Mooring says on the Service itself whether its load balancer is as it asks",
			Fact:      `service/.*/condition/LoadBalancerReady`,
			Reference: absent,
		},
	}
}

// OfLostNodes are the differences that every scenario shows in which an instance ends.
func OfLostNodes() []Intended {
	return []Intended{{
		Name:      "why a node is deleted",
		Reason:    "Mooring names the provider ID under which the cloud denied the instance",
		Fact:      `event/node/.*/Normal/DeletingNode`,
		Reference: `cloud-node-lifecycle-controller: Deleting node .* because it does not exist in the cloud provider`,
		Mooring:   `cloud-node-lifecycle-controller: Deleting node .*: the cloud has no instance for it under its provider ID ".*"`,
	}}
}
