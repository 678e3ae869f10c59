// Package netlab is a network inside this machine for programs that expect a machine each: hosts, an Ethernet segment that joins them,
// and a router, all in Linux namespaces of their own. It ends with the process that made it, whatever that dies of.
package netlab
