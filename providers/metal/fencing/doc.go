// Package fencing turns off machines whose nodes have been silent for a while although they have power, so their volumes may leave them: no
// other component knows whether such a machine still writes. What follows once it is off, the shutdown taint and the out-of-service taint,
// is as for any machine that is off. Nothing here turns a machine on.
//
// A power-off by mistake costs running work, so each needs all of this: the operator's consent, a node whose condition Ready is Unknown for
// long while the API server answered, a majority of nodes that is not, a controller that names the very machine, and a record that the API
// server has stored before. The node is proven to be the machine's by its name in the inventory, if no other node claims the machine. One
// machine is turned off at a time, and none again before its node was ready. Three machines are never turned off: the machine of this
// replica, a machine of a control plane, and the machine of a node with the annotation that excludes it.
//
// See ADR 92.
package fencing
