// Package checker holds a run to its rules: continuously to those about what must never happen, and at its end to those about what has
// to come to be. What it believes is in ADR 85.
package checker

import (
	"slices"

	"github.com/mooring-ccm/mooring/dev/chaos/model"
)

// Rule is something that holds whatever happens.
type Rule struct {
	// Name is what reports call it.
	Name string
	// Sentence says what holds.
	Sentence string
	// Always says that it holds at any time. All others hold once everything had time to act.
	Always bool
}

// The rules about what must never happen.
const (
	NodeKept         = "node-kept"
	AddressKept      = "address-kept"
	AddressUnique    = "address-unique"
	BalancerKept     = "balancer-kept"
	TargetKept       = "target-kept"
	ForeignUntouched = "foreign-untouched"
	OneWriter        = "one-writer"
	Served           = "served"
	Runs             = "runs"
)

var always = []Rule{
	{NodeKept, "no manager deletes a Node whose instance exists", true},
	{AddressKept, "the address of a Service does not change while it wants a load balancer", true},
	{AddressUnique, "no two Services have one address", true},
	{BalancerKept, "no manager deletes the load balancer of a Service that has an address and has always wanted one", true},
	{TargetKept, "no manager removes a target whose node has been a target by right for as long as it was one", true},
	{ForeignUntouched, "no manager writes to a node, a Service, a load balancer or a route of another owner", true},
	{OneWriter, "once a replica has the lease, no other one writes", true},
	{Served, "while a fault concerns one object, all others are served within the bound", true},
	{Runs, "no manager ends by a panic", true},
}

var eventually = []Rule{
	{model.NodeInitialized, "a node whose instance exists is initialized", false},
	{model.NodeGone, "a node whose instance is gone, and whose kubelet is silent, is deleted", false},
	{model.NodeShutdown, "a node has the shutdown taint if its instance is stopped and it is not ready, and only then", false},
	{model.NodeCurrent, "a node shows the instance type and the IP addresses that its instance has", false},
	{model.BalancerThere, "a Service of type LoadBalancer has a load balancer", false},
	{model.BalancerGone, "a load balancer of this cluster has a Service that wants it", false},
	{model.BalancerCurrent, "a load balancer has the port of its Service", false},
	{model.TargetsExact, "the targets of a load balancer are the nodes that shall be, and no others", false},
	{model.AddressPublished, "the status of a Service has the addresses of its load balancer", false},
	{model.ServiceReleased, "a Service that is deleted goes, and one of another type has no addresses", false},
	{model.RouteThere, "a node with a pod CIDR has a route", false},
	{model.RouteGone, "a route of this cluster leads to a pod CIDR of a node", false},
}

// Rules are all rules.
func Rules() []Rule { return slices.Concat(always, eventually) }
