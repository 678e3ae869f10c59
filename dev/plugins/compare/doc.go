// Package compare runs one scenario twice: with the reference cloud controller manager and with Mooring, each with the same plugin,
// on a control plane of its own and on a stand-in of the plugin's cloud of its own. After each step both have to end up with
// the same in Kubernetes and in the cloud; what differs on purpose is listed by the scenario, with its reason.
//
// An Environment acts and observes. What compares, facts.go and compare.go, is pure.
package compare
