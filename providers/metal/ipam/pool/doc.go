// Package pool decides which addresses a Service gets. It is pure: it holds what is known of addresses, answers a request, and
// calls nobody.
//
// Pools are what the config says. State is which Services hold which addresses. Allocate looks for the answer to a Request in a
// State and changes nothing; whoever carries the answer out tells the State of it by Set.
//
// The same State gives the same answer to the same Request, whatever the order in which it was told: the first pool by priority
// that may be used, and the lowest address in it that is free.
package pool
