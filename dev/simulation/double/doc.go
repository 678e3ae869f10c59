// Package double plays what surrounds a manager in a simulation: the plugin and its cloud, the kubelets and users of the cluster, and the faults of
// the API server, all of them as a draw.Draw describes. It records each call of the plugin and each write of the manager.
//
// Requests and calls wait in one queue. A scheduler lets them go one at a time, each after the bubble has come to rest. Which one is next depends
// on the seed, the object, the method and how often that was asked before, and not on the order of arrival.
package double
