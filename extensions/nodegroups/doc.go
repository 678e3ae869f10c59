// Package nodegroups deletes the instances of nodes that the Cluster Autoscaler wants deleted. It waits until no load balancer has the node as a
// target. It stores the request on the Node, and therefore continues after a restart. When the autoscaler removes its taint from the node, the
// request is taken back.
//
// See ADR 64.
package nodegroups
