// Package harness is what the tests of the controllers have in common: a control plane for each package, managers that run one
// controller under the rights that Mooring ships, and eyes on the API server, the metrics and the simulated cloud.
package harness
