// Package rack is where Mooring and MetalLB are measured on bare metal, one after the other: a real API server, a real router, and machines that
// are network namespaces. There is no kubelet: the benchmark writes the Nodes and EndpointSlices that the programs read.
package rack
