// Package service is the service controller. It gives Services of type LoadBalancer their load balancer in the cloud, keeps the
// nodes behind it and what the Service shows of it up to date, and takes it away again.
//
// Data flows one way. A watch event (watch.go), a change of the set of nodes (targets.go) or a comparison with the cloud
// (audit.go) puts a Service's name into the queue; reconcile.go collects what is known; desired.go and plan.go decide; apply.go
// calls the plugin and the API server, through the write limiter in writelimiter.go that bounds how many writes the cloud sees at
// once, in the order of writeorder.go; and settle.go turns how it ended into events, metrics, the Service's condition and the time
// of the next try. While that try is not due, targetsalone.go has the targets follow the nodes.
package service
