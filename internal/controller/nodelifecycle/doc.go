// Package nodelifecycle is the node lifecycle controller. It deletes nodes whose instances are gone from the cloud, and taints
// nodes whose instances are shut down.
//
// Data flows one way, once per period. pass.go reads the nodes from the cache; observe.go asks the cloud about those that are
// not ready; desired.go says what each node shall be by that answer, and plan.go what may be done about it: it holds the guard
// that keeps a wrong "not found" from deleting nodes. journal.go notes deletions before they happen, so that a restart does
// not forget them, and apply.go carries the plan out.
package nodelifecycle
