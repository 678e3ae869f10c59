// Package nodestate is what the controllers of machines read off a node, and what they know of its machine's power. It is pure.
package nodestate

import (
	v1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"
)

// ControlPlaneLabel is on the nodes of the control plane (kubeadm).
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// Power is what is known of a machine's power. Each controller of machines decides for itself when the word of a BMC counts: see
// Observation of package power.
type Power int

// What is known of a machine's power.
const (
	// Unknown is also the power of a machine without a BMC.
	Unknown Power = iota
	On
	// Unverified is what a BMC says that may be another machine's.
	Unverified
	Off
)

// Ready reports whether the kubelet of a node says that it is ready.
func Ready(node *v1.Node) bool { return Readiness(node) == v1.ConditionTrue }

// Readiness returns the status of the condition Ready, empty if the node has none.
func Readiness(node *v1.Node) v1.ConditionStatus {
	if _, ready := nodeutil.GetNodeCondition(&node.Status, v1.NodeReady); ready != nil {
		return ready.Status
	}
	return ""
}
