// Package harness runs whole managers as processes on a real control plane: Mooring or the reference, for tests, for benchmarks and for the
// demo. It says once what the command line of a manager begins with, who it is, who leads, which nodes are initialized, what was asked of the
// API server, and how a secure port is read. It imports no testing; harnesstest has that.
package harness
