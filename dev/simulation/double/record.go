package double

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Call is one call of the plugin.
type Call struct {
	// Method is the method of k8s.io/cloud-provider. Object is a node or a Service, empty for a list.
	Method, Object string
	// Process counts the processes of the manager from one. Other says that it is one of another manager around an exchange.
	Process int
	Other   bool
	// Began and Ended are times since the start of the simulation. Ended is negative while the call is under way.
	Began, Ended time.Duration
	// Err is what it returned.
	Err error
	// Withdrawn is when the manager ended the context of the call while it was under way, zero if it did not.
	Withdrawn time.Duration
	// Overlap is how many calls of the method were under way in this process, this one included and outstanding ones apart.
	Overlap int
	// Beside is how many calls of the method were outstanding in this process when it began.
	Beside int
	// Answer is Yes or No if the call succeeded and asks whether something is so. Listed are the nodes of the routes that a list shows.
	Answer string
	Listed []string
	// Repeated says that a call about the same object was under way in this process: of the same method, or any about a load balancer.
	Repeated bool
	// Targets are the nodes that the plugin was given for a load balancer, and Missing are those of the reference's set that were not.
	Targets, Missing []string
	// Denied says that the cloud denied a load balancer that is there. An Ensure has made another one then.
	Denied bool
	// Port is the first port of the Service that the plugin was given, and Address what it returned for the load balancer.
	Port    int32
	Address string
	// Shared says how an argument was seen by two calls.
	Shared string
}

// UnderWay reports whether the call had not returned at a time.
func (c *Call) UnderWay(at time.Duration) bool { return c.Ended < 0 || c.Ended > at }

// Write is one write of the manager that made a new version of an object.
type Write struct {
	At time.Duration
	// Resource is the plural name of the kind.
	Resource, Object, Verb, Client string
}

// Fault is something that a rule forbids at the moment it happens, and that only the double can see.
type Fault struct {
	Rule   string
	Object string
	At     time.Duration
	Text   string
	// Refreshed says that nothing but the look of a status period can mend it: the cloud has changed, and no object says so.
	Refreshed bool
	// Targets are the nodes that a load balancer lacks, or has and should not.
	Targets []string
}

// Record is what became of one manager in a draw.
type Record struct {
	History

	Manager string
	Calls   []*Call
	Writes  []Write
	Faults  []Fault
	// Initialized has the time at which each node lost its uninitialized taint, by the manager.
	Initialized map[string]time.Duration
	// Removed has the time at which the manager deleted each node.
	Removed map[string]time.Duration
	// Created counts the load balancers that the cloud made for each Service.
	Created map[string]int
	// Ends are the processes that ended by themselves, with their reasons.
	Ends []string
	// Open are the parts of the settled state that were not reached, in order. Settled is when all was, zero if never.
	Open    []Fault
	Settled time.Duration
	// Length is how long the simulation ran.
	Length time.Duration
	// Nodes and Services are what the API server had at the end.
	Nodes    map[string]*corev1.Node
	Services map[string]*corev1.Service
}
