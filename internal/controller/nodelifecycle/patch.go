package nodelifecycle

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// operation is one operation of a JSON patch (RFC 6902). A test for nil is one for absence.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// taintPatch returns a JSON patch that puts the shutdown taint on a node, or takes it off. It tests the node's identity and
// all of its taints, so that a taint of somebody else's is never lost.
func taintPatch(node facts, wanted bool) ([]byte, error) {
	const path = "/spec/taints"
	before := operation{Op: "test", Path: path}
	if len(node.taints) > 0 {
		before.Value = node.taints
	}
	taints := slices.DeleteFunc(slices.Clone(node.taints), isShutdownTaint)
	if wanted {
		taints = append(taints, shutdownTaint())
	}
	return json.Marshal([]operation{
		{Op: "test", Path: "/metadata/uid", Value: node.uid}, before, {Op: "add", Path: path, Value: taints},
	})
}

// conditionPatch is a strategic merge patch, which finds a condition by its type wherever it is in the list. With the
// resource version it takes effect only on the very node that was planned for.
type conditionPatch struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		Conditions []any `json:"conditions"`
	} `json:"status"`
}

// withCondition returns the patch that makes a node show why it is held. The condition's transition is when the cloud first
// denied the instance; a new reason leaves it as it was.
func withCondition(node facts, reason HoldReason, message string, since, now time.Time) ([]byte, error) {
	type shown struct {
		Type               corev1.NodeConditionType `json:"type"`
		Status             corev1.ConditionStatus   `json:"status"`
		Reason             HoldReason               `json:"reason"`
		Message            string                   `json:"message"`
		LastHeartbeatTime  metav1.Time              `json:"lastHeartbeatTime"`
		LastTransitionTime *metav1.Time             `json:"lastTransitionTime,omitempty"`
	}
	condition := shown{
		Type: ConditionInstanceGone, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		LastHeartbeatTime: metav1.NewTime(now),
	}
	if node.heldFor == "" {
		began := metav1.NewTime(since)
		condition.LastTransitionTime = &began
	}
	return patchOf(node, condition)
}

// withoutCondition returns the patch that takes the condition off a node.
func withoutCondition(node facts) ([]byte, error) {
	return patchOf(node, map[string]any{"type": ConditionInstanceGone, "$patch": "delete"})
}

func patchOf(node facts, condition any) ([]byte, error) {
	var patch conditionPatch
	patch.Metadata.ResourceVersion = node.resourceVersion
	patch.Status.Conditions = []any{condition}
	return json.Marshal(patch)
}
