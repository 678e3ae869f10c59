// Package names holds what the manager writes and the tool looks for: reasons of events, types and reasons of conditions, names of
// metrics. The package that writes one of them has it under a name of its own. A name that only one side uses stays with that side.
package names

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

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

// The reasons of events on a Node whose initialization failed.
const (
	// ReasonInstanceNotFound says that the cloud knows no instance for the node.
	ReasonInstanceNotFound = "InstanceNotFound"
	// ReasonAmbiguousInstance says that several instances of the cloud claim the name of a node that has no provider ID.
	ReasonAmbiguousInstance = "AmbiguousInstance"
	// ReasonProviderIDMissing says that the cloud knows the instance but no provider ID for it.
	ReasonProviderIDMissing = "ProviderIDMissing"
	// ReasonNodeIPMismatch says that the kubelet's --node-ip is not among the addresses that the cloud knows.
	ReasonNodeIPMismatch = "NodeIPMismatch"
	// ReasonInvalidMetadata says that the cloud named a type, zone or region that cannot be a label.
	ReasonInvalidMetadata = "InvalidMetadata"
	// ReasonCloudError says that the cloud could not be asked, or answered with an error.
	ReasonCloudError = "CloudError"
	// ReasonWriteFailed says that the API server did not accept what should be written to the node.
	ReasonWriteFailed = "WriteFailed"
)

// ConditionInstanceGone on a Node says that the cloud denies its instance, and that the node is nevertheless kept.
const ConditionInstanceGone corev1.NodeConditionType = "CloudInstanceGone"

// TaintToBeDeleted is put on a node by the Cluster Autoscaler that is about to remove it, and taken off when it does not.
const TaintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// ReasonInvalidAnnotation is the reason of an event about AnnotationFaults.
const ReasonInvalidAnnotation = "InvalidAnnotation"

// annotations are those of Mooring that people or managers put on objects, by the kind of the object. True: the value is a boolean.
var annotations = map[string]map[string]bool{
	"Node": {
		"mooring.dev/ignore": true, "mooring.dev/confirm-deletion": false, "mooring.dev/proven": false,
		"metal.mooring.dev/drain": false, "metal.mooring.dev/out-of-service": false, "metal.mooring.dev/exclude-from-fencing": false,
	},
	"Service": {
		"metal.mooring.dev/load-balancer-ips": false, "metal.mooring.dev/address-pool": false, "metal.mooring.dev/allow-shared-ip": false,
	},
}

// AnnotationFaults returns what is wrong with the annotations of an object that begin with Mooring's domain: keys that have no meaning there, and values
// that are no boolean where one is needed.
func AnnotationFaults(kind string, values map[string]string) (faults []string) {
	var keys []string
	for key := range values {
		if domain, _, _ := strings.Cut(key, "/"); domain == "mooring.dev" || strings.HasSuffix(domain, ".mooring.dev") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		boolean, known := annotations[kind][key]
		switch {
		case !known:
			faults = append(faults, fmt.Sprintf("the annotation %s has no meaning on a %s%s", key, kind, suggestion(kind, key)))
		case boolean:
			if _, err := strconv.ParseBool(values[key]); err != nil {
				faults = append(faults, fmt.Sprintf("the annotation %s is %q and has no effect: set it to true or false, or remove it", key, values[key]))
			}
		}
	}
	return faults
}

// suggestion says what may have been meant.
func suggestion(kind, key string) string {
	for other, known := range annotations {
		if _, found := known[key]; found && other != kind {
			return ": it belongs on a " + other
		}
	}
	keys := slices.Sorted(maps.Keys(annotations[kind]))
	nearest := slices.MinFunc(keys, func(a, b string) int { return distance(key, a) - distance(key, b) })
	if distance(key, nearest) <= farthest {
		return fmt.Sprintf("; did you mean %s?", nearest)
	}
	return "; known are " + strings.Join(keys, ", ")
}

// farthest is by how many letters a mistyped key may differ.
const farthest = 4

// distance is how many letters have to be added, removed or changed to make of one text the other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

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
