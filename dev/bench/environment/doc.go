// Package environment is where a variant runs: a control plane, a simulated cloud and the processes of a manager, all fresh for
// each stage, with the means to watch them and to measure what they do.
package environment
