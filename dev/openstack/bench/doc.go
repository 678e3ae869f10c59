// Package bench measures managers on the services of a real OpenStack: which calls they make while servers join a cluster and Services get load
// balancers, and how long that takes. Every manager gets a control plane of its own, all get the same servers, the same cloud.conf and their
// default flags, one after the other. The calls are counted by the proxies that tenants reach the services by.
package bench
