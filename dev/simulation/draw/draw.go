// Package draw describes a simulation: a plugin, its cloud, a cluster and what disturbs them, all of it drawn from the version of the generator
// and a seed. A Draw is a value: it does nothing itself, and the same seed gives the same Draw.
//
// A scenario is a draw as text, which a person may edit. A hash begins a comment:
//
//	draw version=2 seed=53
//	plugin other-spelling+denying latency=1.2s lag=45s
//	node node-00
//	node node-01 joins=1m5s taken=true
//	service service-0 created=30s
//	2m3s proxy-answer service-0 number=404 skip=2
//	3m0s crash
//
// The line of the plugin names its characters, or "plain". A line that begins with a time is a disturbance and the object that it concerns. Words
// with an equals sign are fields of Draw, Plugin, Node, Service and Event. A missing field is zero. The seed decides how long calls take and which of
// them fail. It decides for each object and call separately, so removing other objects does not change the result.
package draw

import (
	"slices"
	"strings"
	"time"
)

// Version is the version of the generator. A change of what a seed means raises it.
const Version = 2

const (
	// Settle is how long the cluster runs before the first disturbance.
	Settle = time.Minute
	// Disturbed is when the last disturbance has ended, from the start of the manager.
	Disturbed = 10 * time.Minute
	// LongestQuiet is how long a manager may take to settle after that.
	LongestQuiet = 10 * time.Minute
	// ShortestQuiet is how long a manager is watched after the disturbances in any case.
	ShortestQuiet = 6 * time.Minute
	// ReadyzSeen is how long /readyz fails before a user changes a port.
	ReadyzSeen = 30 * time.Second
)

// Character is a way of a plugin or its cloud.
type Character string

// The characters of plugins.
const (
	HeavyTailed     Character = "heavy-tailed"     // one call of ten is 20 times slower
	WaitingLimiter  Character = "waiting-limiter"  // calls wait for the plugin's own limiter, whatever their context
	RefusingLimiter Character = "refusing-limiter" // the plugin's own limiter refuses calls that come too fast
	ColdCache       Character = "cold-cache"       // the first calls of a process wait until a cache is filled
	NoMutex         Character = "no-mutex"         // calls of a method at the same time end the process
	Mutating        Character = "mutating"         // calls change their arguments
	AnyOrder        Character = "any-order"        // each answer has its addresses in another order
	OtherSpelling   Character = "other-spelling"   // kubelets and the plugin spell provider IDs differently
	Failing         Character = "failing"          // some calls return errors of every class
	Hanging         Character = "hanging"          // some calls return at the end of the disturbances only
	Panicking       Character = "panicking"        // some calls panic
	OldInterfaces   Character = "old-interfaces"   // it has Instances and Zones instead of InstancesV2
	Declaring       Character = "declaring"        // it declares its capabilities rightly
	Echoing         Character = "echoing"          // it hands back what it was given
	WritesObjects   Character = "writes-objects"   // it writes annotations to the objects that it is given
	RetryErrors     Character = "retry-errors"     // some calls about load balancers return a RetryError
	PartialSuccess  Character = "partial-success"  // some calls do their work and fail, or return a part of an answer
)

// The characters of clouds.
const (
	Lagging          Character = "lagging-lists"      // lists show routes late
	Denying          Character = "denying"            // the cloud denies instances that exist, for a while
	BalancerNotFound Character = "balancer-not-found" // the cloud denies load balancers that exist, for a while
	AlternatingPower Character = "alternating-power"  // answers about the power of an instance alternate
	EventualDeletion Character = "eventual-deletion"  // deletions take effect late
	LaggingAnswers   Character = "lagging-answers"    // answers about one object are late
	Replicas         Character = "replicas"           // one of two replicas of the cloud's API is late, and they alternate
	Quota            Character = "quota"              // the cloud makes only some load balancers and routes until the disturbances end
	EmptyPages       Character = "empty-pages"        // some lists are empty, or have empty pages
)

// Plugin is the behaviour of a plugin and its cloud.
type Plugin struct {
	Characters []Character
	// Latency is what a call takes.
	Latency time.Duration
	// LimiterInterval is the pause that the plugin's limiter keeps between calls.
	LimiterInterval time.Duration
	// CacheFill is how long a cold cache takes.
	CacheFill time.Duration
	// FaultRate is the share of calls that fail, hang or panic during the disturbances.
	FaultRate float64
	// Lag is how late the lists and single answers of an inconsistent cloud are.
	Lag time.Duration
}

// Has reports whether the plugin has a character.
func (p Plugin) Has(character Character) bool {
	return slices.Contains(p.Characters, character)
}

// plain is the name of a plugin without characters.
const plain = "plain"

// Name returns the characters, joined by plus signs.
func (p Plugin) Name() string {
	if len(p.Characters) == 0 {
		return plain
	}
	names := make([]string, 0, len(p.Characters))
	for _, one := range p.Characters {
		names = append(names, string(one))
	}
	return strings.Join(names, "+")
}

// Node is a machine with a kubelet.
type Node struct {
	Name string
	// Joins is when the kubelet registers the node, zero for nodes that exist before the manager starts.
	Joins time.Duration
	// Taken says that another manager initialized the node before, and a user has set its zone since.
	Taken bool
}

// Service is a Service of type LoadBalancer.
type Service struct {
	Name string
	// Created is when a user makes it.
	Created time.Duration
}

// Disturbance is a kind of event.
type Disturbance string

// The disturbances of a cluster and its API server.
const (
	Leave        Disturbance = "leave"         // an instance is deleted, and its kubelet falls silent
	MassLeave    Disturbance = "mass-leave"    // many instances are deleted at once
	Silent       Disturbance = "silent"        // a kubelet is silent for a while
	TaintReturns Disturbance = "taint-returns" // the uninitialized taint comes back
	Exclude      Disturbance = "exclude"       // a user excludes a node from load balancers, for a while
	ToBeDeleted  Disturbance = "to-be-deleted" // the autoscaler marks a node
	HandLabel    Disturbance = "hand-label"    // a user sets a node's zone by hand
	Beat         Disturbance = "beat"          // an annotation of a Service changes every few seconds
	PortChange   Disturbance = "port-change"   // a user changes a port of a Service
	PortInBeat   Disturbance = "port-in-beat"  // the same, and after half of it a user changes a port
	Deleted      Disturbance = "deleted"       // a user deletes a Service
	ProxyAnswer  Disturbance = "proxy-answer"  // a proxy answers requests about an object as text, while a change of it is due
	Conflicts    Disturbance = "conflicts"     // writes to an object conflict
	CutWatches   Disturbance = "cut-watches"   // all watches end
	NotReady     Disturbance = "readyz"        // /readyz answers 500 for a while, all but four requests succeed, and a user changes a port
	Crash        Disturbance = "crash"         // the process is killed
	Restart      Disturbance = "restart"       // the process is asked to end
	Replaced     Disturbance = "replaced"      // another instance takes the name of one, and its kubelet registers if the node is gone
	Renamed      Disturbance = "renamed"       // an instance gets another name in the cloud
	Flap         Disturbance = "flap"          // a kubelet falls silent and comes back, three times
	LostLabels   Disturbance = "lost-labels"   // a user removes the labels of a node's place
	Busy         Disturbance = "busy"          // another controller writes a node every second, for a while
	Bulk         Disturbance = "bulk"          // many Services are made, changed and deleted at once
	TypeChange   Disturbance = "type-change"   // a Service is no load balancer for a while
	Timeouts     Disturbance = "timeouts"      // requests about an object time out, before or after they were carried out
	SlowWatches  Disturbance = "slow-watches"  // watches deliver events late, for a while
	LeaseLost    Disturbance = "lease-lost"    // another process takes the lease
	Exchange     Disturbance = "exchange"      // the other manager takes the place of this one
	None         Disturbance = "none"          // nothing happened
)

// Event is a disturbance at a time.
type Event struct {
	At   time.Duration
	Kind Disturbance
	// Object is a node or a Service, empty for what concerns all.
	Object string
	// For is how long the disturbance lasts, where it ends by itself.
	For time.Duration
	// Number is a port, a status code or a count of requests.
	Number int
	// Skip is how many requests pass before the first one that is answered wrongly.
	Skip int
}

// Draw is everything that the seed decides.
type Draw struct {
	Version  int
	Seed     uint64
	Plugin   Plugin
	Nodes    []Node
	Services []Service
	// Election says that two replicas of the manager elect a leader.
	Election bool
	// OtherFirst says that the other manager runs until the first exchange.
	OtherFirst bool
	// Events are the disturbances, the first one first.
	Events []Event
}

// Last returns the disturbance that happened to an object or to all before a time, the newest of them.
func (d Draw) Last(object string, before time.Duration) Disturbance {
	last := None
	for _, event := range d.Events {
		if event.At <= before && (event.Object == object || event.Object == "" || object == "") {
			last = event.Kind
		}
	}
	return last
}

// Has reports whether a disturbance happens.
func (d Draw) Has(kind Disturbance) bool {
	return slices.ContainsFunc(d.Events, func(event Event) bool { return event.Kind == kind })
}
