// Package names holds what the manager writes and the tool looks for: reasons of events, types and reasons of conditions, names of
// metrics. The package that writes one of them has it under a name of its own. A name that only one side uses stays with that side.
package names
