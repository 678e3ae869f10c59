// Package check says whether a cluster is fit for a cloud controller manager, and for Mooring in particular. It is pure: an
// Observation is what was read of the cluster, a rule looks at it, and a Result is what the rule found. Package observe reads.
package check
