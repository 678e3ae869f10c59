// Package compute is a loopback stand-in for the parts of the Compute Engine API, version 1, and of its metadata server, that the
// plugin of Google's cloud calls: a store of JSON resources with the API's URLs, operations, filters and conflicts. What it does
// not know it refuses, and remembers.
//
// The plugin brings a fake of its own, in memory, which would leave out what is of interest here: its clients, its credentials and
// its waiting for operations. It cannot be given informers either.
package compute
