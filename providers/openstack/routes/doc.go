// Package routes puts the routes to pods into a router of Neutron, and allows the ports of nodes to send from pods' addresses. Changes
// are made by the batch: one call adds routes, one removes some. Where Neutron has no such calls, the whole list is replaced, guarded by
// the router's revision.
//
// Pairs of allowed addresses are set before a route leads to a port, and removed after none does: a route that is there needs nothing
// else, so a call which failed halfway is repaired by making it again.
package routes
