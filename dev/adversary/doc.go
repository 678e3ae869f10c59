// Package adversary tries what a stolen kubelet credential may do. A kubelet of one node writes all that the Node authorizer and NodeRestriction
// let it write, with hostile values, while a whole manager runs. A checker watches everything that is not that kubelet's own: other nodes, their
// instances, routes and targets, the manager's leases. It has to stay as it is.
//
// The moves are drawn from a seed: `make adversary SEED=n MOVES=m`.
package adversary
