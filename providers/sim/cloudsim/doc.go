// Package cloudsim is a simulated cloud: instances, zones, machine types, load balancers and routes behind an HTTP JSON API,
// as a cloud controller manager meets them, slowness, quotas and lies included.
//
// What it holds is in one bbolt file. A write is on the disk before it is answered, so a killed process loses
// nothing that a client was answered. What changes its behavior (api.Knobs, api.Fault) and what counts its calls
// (api.Counts) is of the process and not kept.
//
// A request flows one way: admit (count, token, quota, latency, fault), read and validate, decide what is written, commit
// it to the file, then change the memory and answer from it.
package cloudsim
