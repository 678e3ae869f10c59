// Package metal is the provider "metal", for machines without a cloud. Importing it registers it.
//
// It has two halves, which touch in the config only. Each works without the other's section of the config.
//
// Machines: instances are the machines of the inventory (instances.go), which package machines/machine matches with nodes. Package power reads
// and switches power by management controllers (BMCs); packages dead and nodegroup decide by it.
//
// Load balancing: package lb/ipam allocates the addresses of load balancers from pools. Routes are announcements: package announce decides
// which nodes may be next hops, with what package health probes, and fills the table of package routing; packages bgp and layer2 announce
// that table to routers and to neighbors.
//
// Package self finds the replica's own machine.
// No agent runs on the nodes: the provider derives everything from the API server, from its config and from probes.
//
// The part that announces runs on every replica (replicas.go). Replicas announce the same, because they derive it from the same.
// The part that writes to Kubernetes or asks management controllers runs on the leader (leader.go).
package metal
