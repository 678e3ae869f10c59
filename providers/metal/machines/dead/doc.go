// Package dead looks after the nodes of machines that are dead: off, or silent although they have power.
//
// The node of a machine that is off gets the taint node.kubernetes.io/out-of-service (KEP-2268, non-graceful node shutdown), which is taken
// off again once the machine is back. With the taint, kube-controller-manager removes the node's pods and detaches their volumes at once.
// Volumes that are detached while the machine still writes are corrupted. So the taint needs three witnesses: the machine's management
// controller (BMC), which is trusted, has confirmed for a while that it is off; the node carries the shutdown taint, by the node lifecycle
// controller; and its condition Ready is Unknown, because the kubelet is silent. What is not known changes nothing.
//
// The machine of a node that has been silent for a while is turned off if it has power: no other component knows whether such a machine still
// writes. The taints follow, as for any machine that is off. Nothing here turns a machine on. A power-off by mistake costs running work, so
// each needs all of this: the operator's consent, a node whose condition Ready is Unknown for long while the API server answered, a majority
// of nodes that is not, a controller that names the very machine, and a record that the API server has stored before. The node is proven to be
// the machine's by its name in the inventory, if no other node claims the machine. One machine is turned off at a time, and none again before
// its node was ready. Three machines are never turned off: the machine of this replica, a machine of a control plane, and the machine of a
// node with the annotation that excludes it.
//
// See ADR 92.
package dead
