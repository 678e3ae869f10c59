// Package harness is what the tests share that run whole managers as processes: the benchmark, and the scenarios with plugins
// that others wrote. Both compare Mooring with the reference cloud controller manager, each on a control plane of its own.
package harness
