// Package ipam allocates addresses from the pools of the bare-metal provider to Services of type LoadBalancer. Its Allocator is the
// cloudprovider.LoadBalancer of package metal.
//
// The status of the Services is the only record of the allocations. There is no file, annotation or object beside it that could
// disagree with what clients and routers see. A process that begins to lead reads all Services from the API server, follows them
// by a watch, and adds what it has granted itself since then, which the watch may not show yet. An address is free if no Service
// shows it and none was granted it.
//
// Three rules keep an address from being given twice, or taken away:
//
//   - What is known of a Service is the newest of all that was seen of it, by its resource version, wherever it came from. A cache
//     that lags behind makes nothing unknown again.
//   - A grant lasts until the Service gives it back or is gone. An address that is given back is free when the API server no longer
//     shows it. Where the watch may lag behind, the API server is asked.
//   - If two Services show one address all the same, because another client wrote it there, the older one keeps it on every replica.
//
// request.go reads what a Service asks for, allocations.go holds what is known, reads.go asks the API server, package pool decides,
// loadbalancer.go answers the controller, and events.go records events.
//
// See ADR 70.
package ipam
