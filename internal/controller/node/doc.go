// Package node is the node controller. It initializes nodes that carry the taint
// node.cloudprovider.kubernetes.io/uninitialized from what the cloud says of their instances, and keeps nodes as the cloud
// says afterwards.
//
// Data flows one way. A watch event (watch.go) or the periodic refresh (refresh.go) puts a node's name into the queue;
// reconcile.go looks the node and its instance up; desired.go and plan.go decide; apply.go writes; and settle.go turns how it
// ended into events, metrics and the time of the next try.
package node
