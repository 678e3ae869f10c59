// Package fencing turns off machines whose nodes have been silent for a while although they have power, so their volumes may
// leave them: nobody else knows whether such a machine still writes. What follows once it is off, the shutdown taint and the
// out-of-service taint, is as for any machine that is off. Nothing here turns a machine on.
//
// A power-off by mistake costs running work, so each needs all of this: the operator's consent, a node whose condition Ready is
// Unknown for long while the API server answered, a majority of nodes that is not, a controller that names the very machine, and a
// record that the API server has stored before. The node is proven to be the machine's by its name in the inventory, and by no other
// node that says so. One machine is turned off at a time, never that of this replica, of a control plane, or of a node with the annotation
// that says so; and none again before its node was ready.
//
// See ADR 92.
package fencing
