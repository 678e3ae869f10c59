package names

import corev1 "k8s.io/api/core/v1"

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
