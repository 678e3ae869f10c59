package provider

import "time"

// Limits are what an account of the cloud bears of calls, all those of the provider together. What is not known is zero, and is
// found out from the cloud's refusals.
type Limits struct {
	// CallsPerSecond is how many calls a second the account bears for long: the rate at which its quota fills. What --cloud-api-qps
	// says goes before.
	CallsPerSecond float64
	// Burst is how many calls it bears at once after a pause. Zero means those of one second. It counts with CallsPerSecond only.
	Burst int
	// InFlight is how many calls may be under way at once, reads of the same kind among them. Zero means that the provider does not say,
	// and gets as many as from the reference: by default one of a kind. Writes at the same time are declared by LoadBalancerWrites and
	// RouteWrites. What --cloud-api-max-in-flight says goes before.
	InFlight int
	// Timeout is how long a call that reads may take until its context ends, or a listing from page to page, and WriteTimeout how long one
	// that changes something. Zero means no deadline, as in the reference. What --cloud-api-timeout and --cloud-api-write-timeout say goes
	// before.
	Timeout, WriteTimeout time.Duration
	// Groups names the quota that a method of the provider draws on, by the method's name, such as "GetLoadBalancer", where that is
	// not the usual one of its kind. Methods about instances, about load balancers and about routes draw on one quota each,
	// which are named "instances", "load_balancers" and "routes". The refusals of one quota slow no call that draws on another, and
	// so it is with calls that hang or fail. The names are labels of metrics: there are few of them.
	Groups map[string]string
}
