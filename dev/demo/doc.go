// Package demo shows Mooring at work: a real control plane, a cloud, two replicas of the daemon and nodes that
// join, on this machine, without privileges, and with nothing left behind.
//
// It runs sections, and a section is an ordered list of steps. A step does one thing, waits until the cluster or
// the cloud shows what has to come of it, and fails when that does not happen within its deadline. To add a section, write
// a function that returns it and name it in simSections(), metalSections() or openstackSections(): there is one list for the simulated cloud,
// one for machines without a cloud, which runs in network namespaces (package netlab), and one for the services of OpenStack.
//
// Data flows in one direction: steps and watches emit events, package scenario adds them up to a model, package
// render shows models. Nothing flows back.
package demo
