// Package ipam gives Services of type LoadBalancer addresses from the pools of the bare-metal provider. It is the
// cloudprovider.LoadBalancer of package metal.
//
// The record of who has which address is the status of the Services themselves. Nothing else is kept: no file, no annotation, no
// object of our own, so that nothing can disagree with what clients and routers see. A process that begins to lead reads all
// Services from the API server, follows them by a watch, and adds to that what it has granted itself since then, which the watch
// may not show yet. An address is free if no Service shows it and nobody was granted it.
//
// Three rules keep an address from being given twice, or taken away:
//
//   - What is known of a Service is the newest of all that was seen of it, by its resource version, wherever it came from. A cache
//     that lags behind makes nothing unknown again.
//   - A grant lasts until the Service gives it back or is gone. An address that is given back is free when the API server does
//     not show it any more: it is asked, where the watch cannot have told yet.
//   - If two Services show one address all the same, because somebody wrote it there, the older one keeps it, whoever looks.
//
// request.go reads what a Service asks for, ledger.go is what is known, reads.go asks the API server, package pool decides,
// loadbalancer.go answers, and events.go tells.
package ipam
