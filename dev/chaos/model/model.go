// Package model is what is known of the cluster and of the cloud in a chaos run, and what should be, in as few rules as possible. It is
// fed from the API server's watch and from the record of the simulated cloud, and never from what a manager says of itself. It does no
// I/O and reads no clock.
package model

import (
	"time"
)

// Node is a Node object.
type Node struct {
	Name, UID, ProviderID string
	// PodCIDR is where its route leads; empty for none.
	PodCIDR string
	// MachineType is the label with the instance type, and IPs are the IP addresses, sorted.
	MachineType string
	IPs         []string
	Ready       Readiness
	// Uninitialized and Shutdown are the taints of cloud providers.
	Uninitialized, Shutdown bool
	// Excluded says that it has the label that keeps it out of load balancers, and Deleting that it has a deletion timestamp.
	Excluded, Deleting bool
}

// Readiness is what a node's Ready condition says.
type Readiness string

// The values of a Ready condition.
const (
	Ready   Readiness = "True"
	Unready Readiness = "False"
	Silent  Readiness = "Unknown"
)

// Service is a Service object.
type Service struct {
	Name, UID string
	// Balanced says that it is of type LoadBalancer and of a class that is ours.
	Balanced bool
	Deleting bool
	// Port is its only port.
	Port int32
	// Addresses are those of its status, sorted.
	Addresses []string
}

// Wants says that the Service shall have a load balancer.
func (s Service) Wants() bool { return s.Balanced && !s.Deleting }

// Instance is a machine of the cloud.
type Instance struct {
	ID, Name, MachineType string
	IPs                   []string // sorted
	Stopped               bool
}

// Balancer is a load balancer of the cloud.
type Balancer struct {
	Name string
	// ServiceUID is whose it is; empty for one that is not this cluster's.
	ServiceUID string
	Port       int32
	Addresses  []string
	// Targets are IDs of instances, sorted.
	Targets []string
	Failed  bool
}

// Route is a route of the cloud.
type Route struct {
	ID, CIDR, InstanceID string
	// Ours says that it is this cluster's.
	Ours bool
}

// State is everything that is known. The zero value knows nothing; use New.
type State struct {
	Nodes     map[string]Node
	Services  map[string]Service
	Instances map[string]Instance
	Balancers map[string]Balancer
	Routes    map[string]Route

	// ineligible is when a node was last no target, by UID; unwanted is when a Service last wanted no load balancer, by UID.
	ineligible, unwanted map[string]time.Duration
	// targetSince is when an instance became a target of a load balancer.
	targetSince map[[2]string]time.Duration
}

// New returns a state that knows nothing.
func New() *State {
	return &State{
		Nodes: map[string]Node{}, Services: map[string]Service{}, Instances: map[string]Instance{}, Balancers: map[string]Balancer{},
		Routes: map[string]Route{}, ineligible: map[string]time.Duration{}, unwanted: map[string]time.Duration{},
		targetSince: map[[2]string]time.Duration{},
	}
}

// SetNode notes how a node is.
func (s *State) SetNode(at time.Duration, node Node) {
	if old, known := s.Nodes[node.Name]; !known || old.UID != node.UID || !node.eligible() || !old.eligible() {
		s.ineligible[node.UID] = at
	}
	s.Nodes[node.Name] = node
}

// RemoveNode notes that a node is no more.
func (s *State) RemoveNode(name string) { delete(s.Nodes, name) }

// SetService notes how a Service is.
func (s *State) SetService(at time.Duration, service Service) {
	if !service.Wants() {
		s.unwanted[service.UID] = at
	}
	s.Services[service.Name] = service
}

// RemoveService notes that a Service is no more.
func (s *State) RemoveService(name string) { delete(s.Services, name) }

// Disturb notes that a node or a Service may be about to change.
func (s *State) Disturb(at time.Duration, uid string) { s.ineligible[uid], s.unwanted[uid] = at, at }

// SetBalancer notes how a load balancer is.
func (s *State) SetBalancer(at time.Duration, balancer Balancer) {
	for _, id := range Without(s.Balancers[balancer.Name].Targets, balancer.Targets) {
		delete(s.targetSince, [2]string{balancer.Name, id})
	}
	for _, id := range balancer.Targets {
		if _, known := s.targetSince[[2]string{balancer.Name, id}]; !known {
			s.targetSince[[2]string{balancer.Name, id}] = at
		}
	}
	s.Balancers[balancer.Name] = balancer
}

// RemoveBalancer notes that a load balancer is no more.
func (s *State) RemoveBalancer(name string) {
	for _, id := range s.Balancers[name].Targets {
		delete(s.targetSince, [2]string{name, id})
	}
	delete(s.Balancers, name)
}

// eligible says whether a node belongs into load balancers: it is initialized, has a provider ID, and is neither excluded nor being deleted.
func (n Node) eligible() bool {
	return !n.Uninitialized && !n.Excluded && !n.Deleting && n.ProviderID != ""
}

// ServiceOf returns the Service of a load balancer.
func (s *State) ServiceOf(balancer Balancer) (Service, bool) {
	for _, service := range s.Services {
		if service.UID == balancer.ServiceUID {
			return service, true
		}
	}
	return Service{}, false
}

// NodeOf returns the node of an instance.
func (s *State) NodeOf(instanceID string) (Node, bool) {
	for _, node := range s.Nodes {
		if node.ProviderID == ProviderID(instanceID) {
			return node, true
		}
	}
	return Node{}, false
}

// catchUp is how much later than a node's last change a write may reach the cloud that was planned before it, or between two: as long as
// managers wait for a burst of changes to end.
const catchUp = 15 * time.Second

// AlwaysTarget says whether the node of an instance was a target by right for as long as it is one of that load balancer, and for catchUp
// before: then nothing may remove it.
func (s *State) AlwaysTarget(balancer, instanceID string) bool {
	since, is := s.targetSince[[2]string{balancer, instanceID}]
	node, known := s.NodeOf(instanceID)
	_, exists := s.Instances[instanceID]
	last, once := s.ineligible[node.UID]
	return is && known && exists && node.eligible() && (!once || last+catchUp < since)
}

// AlwaysWanted says whether a Service has wanted a load balancer since it was made.
func (s *State) AlwaysWanted(uid string) bool {
	_, once := s.unwanted[uid]
	return !once
}

// ProviderID is the provider ID of a node by the ID of its instance.
func ProviderID(instanceID string) string { return "sim://" + instanceID }
