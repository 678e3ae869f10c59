// Package nodestate is what the controllers of machines read off a node, and what they know of its machine's power. It is pure.
package nodestate

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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

// Node has the facts of a node that every decision about its machine needs.
type Node struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	// Ready says that the condition Ready is true, and Silent that it is Unknown: the kubelet has not said anything for a while. A
	// kubelet that says that it is not ready runs, and so does its machine.
	Ready, Silent bool
	Deleting      bool
	// Power is the power of its machine.
	Power Power
}

// Of reads the facts off a node.
func Of(node *v1.Node, power Power) Node {
	n := Node{
		Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Deleting: !node.DeletionTimestamp.IsZero(), Power: power,
	}
	ready := readiness(node)
	n.Ready, n.Silent = ready == v1.ConditionTrue, ready == v1.ConditionUnknown
	return n
}

// Ready reports whether the kubelet of a node says that it is ready.
func Ready(node *v1.Node) bool { return readiness(node) == v1.ConditionTrue }

// readiness returns the status of the condition Ready, empty if the node has none.
func readiness(node *v1.Node) v1.ConditionStatus {
	if _, ready := nodeutil.GetNodeCondition(&node.Status, v1.NodeReady); ready != nil {
		return ready.Status
	}
	return ""
}
