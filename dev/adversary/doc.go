// Package adversary tries what a stolen kubelet credential may do, and a tenant who may write Services, EndpointSlices and pods in one namespace.
// Each writes all that the API server lets it write, with hostile values, while a whole manager runs. A checker watches everything that is not
// the adversary's own: other nodes, their instances, routes and targets, other namespaces' Services and what a router learns of them, the
// manager's leases. It has to stay as it is.
//
// The moves are drawn from a seed: `make adversary SEED=n MOVES=m`.
package adversary
