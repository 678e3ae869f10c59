// Package nodegroups deletes the instances of nodes that the Cluster Autoscaler wants deleted: once no load balancer has the node as a target any
// more, by what is written on the Node, so it goes on after a restart. What the autoscaler gives up, by taking its taint off the
// node, is taken back.
//
// See ADR 64.
package nodegroups
