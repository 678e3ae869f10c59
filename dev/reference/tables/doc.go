// Package tables plays the cases of the reference's own unit tests under both managers, as differential tests: the objects of a case go to an API server in
// memory, what its cloud answers comes from k8s.io/cloud-provider/fake, and the ends are compared, in virtual time. What differs has a row in the
// register of extras, or fails.
//
// Package upstream reads the cases. A Script is a case as it can be played: scripts.go has one builder for each of the reference's test functions,
// and says which cases no API server can show.
package tables
