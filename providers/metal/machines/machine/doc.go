// Package machine finds the machine of a node in the inventory. It is pure: the same inventory and node always give the same
// answer, in whatever order the machines are listed.
//
// A node that has a provider ID belongs to the machine with that ID, whatever else is known of both. One that has none belongs to
// the machine that everything known of it points to: its name, its system UUID and its addresses. If they point to different
// machines, or one contradicts, nothing is guessed: the answer is an error that names the machines.
//
// See ADR 76.
package machine
