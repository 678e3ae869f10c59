// Package demo shows Mooring at work: a real control plane, a simulated cloud, two replicas of the daemon and nodes that
// join, on this machine, without privileges, and with nothing left behind.
//
// It is a story of chapters, and a chapter is an ordered list of steps. A step does one thing, waits until the cluster or
// the cloud shows what has to come of it, and fails when that does not happen within its deadline. To add a chapter, write
// a function that returns it and name it in simChapters() or metalChapters(): there is one story for the simulated cloud, and one
// for machines without a cloud, which happens in network namespaces (package lab).
//
// What happens is told in one direction: steps and watches emit events, package story adds them up to a model, package
// render shows models. Nothing flows back.
package demo
