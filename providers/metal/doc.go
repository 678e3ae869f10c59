// Package metal is the provider "metal", for machines without a cloud. Importing it registers it.
//
// Machines of an inventory are its instances (instances.go), pools of addresses its load balancers (package balancer), and what
// it announces to routers by BGP or to neighbors by ARP and NDP its routes (packages announce, bgp, l2). There is no agent on
// the nodes, and no cloud behind it: it derives all from the API server, from its config and from probes.
//
// What announces runs on every replica (replicas.go), and is the same on each, because it derives from the same; what writes
// to Kubernetes or asks management controllers runs on the one that leads (leader.go).
package metal
