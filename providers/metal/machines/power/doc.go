// Package power reads the power states of machines from their management controllers: by Redfish, by IPMI, or by a command.
//
// What is not known is never off. A machine counts as off when its controller has said so twice, a while apart, and nothing else in
// between; and what a controller said counts for a few intervals only. So neither a slip of a controller nor a restart of the
// machine, and never the silence of a controller, is taken for a machine that is off.
//
// A controller that names another system than the machine's belongs to another machine, and its answer does not count for this one.
//
// See ADR 75 and ADR 73.
package power
