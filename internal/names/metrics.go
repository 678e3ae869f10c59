package names

// The metrics that `mooring status` shows. The package that registers one says what it counts, and docs/reference/metrics.md has all.
const (
	MetricInventoryInstances = "mooring_inventory_instances"
	MetricInventoryListed    = "mooring_inventory_listing_timestamp_seconds"
	MetricInventoryWatched   = "mooring_inventory_watch_mark_timestamp_seconds"

	MetricCloudCalls         = "mooring_cloud_calls_total"
	MetricCloudCallsInFlight = "mooring_cloud_calls_in_flight"
	MetricCloudCallsWaiting  = "mooring_cloud_calls_waiting"
	MetricCloudRateLimit     = "mooring_cloud_rate_limit"
	MetricCloudRefusals      = "mooring_cloud_refusals_total"

	MetricNodesHeld         = "mooring_node_lifecycle_held_nodes"
	MetricDeletionsInWindow = "mooring_node_lifecycle_deletions_in_window"
	MetricDeletionLimit     = "mooring_node_lifecycle_deletion_limit"

	MetricRoutesListed  = "mooring_route_listed"
	MetricRoutesMissing = "mooring_route_missing"
	MetricRouteLimit    = "mooring_route_limit"

	MetricServiceTargets = "mooring_service_targets"
	MetricServiceDrift   = "mooring_service_drift_total"
	MetricServiceOrphans = "mooring_service_orphans"

	MetricSessionUp       = "mooring_metal_bgp_session_up"
	MetricSessionState    = "mooring_metal_bgp_session_state"
	MetricSessionProblem  = "mooring_metal_bgp_session_problem"
	MetricSessionChanged  = "mooring_metal_bgp_session_last_transition_timestamp_seconds"
	MetricSessionFlaps    = "mooring_metal_bgp_session_flaps_total"
	MetricSessionPrefixes = "mooring_metal_bgp_prefixes"
	MetricSessionPaths    = "mooring_metal_bgp_paths"
)

// The values of the label outcome of MetricCloudCalls that are no failures of the cloud.
const (
	CallOK             = "ok"
	CallNotFound       = "not_found"
	CallNotImplemented = "not_implemented"
	CallRetry          = "retry"
)

// IsCallFailure reports whether a value of the label outcome of MetricCloudCalls is a failure of the cloud.
func IsCallFailure(outcome string) bool {
	return outcome != CallOK && outcome != CallNotFound && outcome != CallNotImplemented && outcome != CallRetry
}
