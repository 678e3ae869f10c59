// Package route keeps one route in the cloud for every pod CIDR of every node of ours, and no other within the cluster's
// CIDRs.
//
// A pass compares the complete list of the cluster's routes with all nodes (desired.go, plan.go), leaves out what is under
// way, has just been done or failed a moment ago (memory.go), and carries out the rest: stale routes first, then
// replacements, then new routes (apply.go). pace.go says when the next pass is due: soon after nodes changed, when a failed
// operation may be tried again, and now and then in any case, the less often the longer nothing changed.
package route
