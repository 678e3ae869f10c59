// Package autoscaler serves the Cluster Autoscaler's external gRPC protocol for a provider that offers node groups.
//
// What is observed of the groups (observe.go), its translation to the protocol (translate.go) and the preconditions of a deletion (package deletion) are
// apart from the calls. Instances of nodes are not deleted here: a call writes the intent on the Node, and the controller in
// extensions/nodegroups goes on from there.
//
// See ADR 64.
package autoscaler
