package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is something that is not as it should be. Until the manager has had time to act that is nothing wrong.
type Difference struct {
	// Rule is the name of the rule that it is against.
	Rule string
	// Object is a node, a Service, a load balancer or a route, as its kind and its name.
	Object string
	// Detail is what is and what should be.
	Detail string
}

func (d Difference) String() string { return d.Rule + ": " + d.Object + ": " + d.Detail }

// The rules about what has to come to be, sooner or later.
const (
	NodeInitialized  = "node-initialized"
	NodeGone         = "node-gone"
	NodeShutdown     = "node-shutdown"
	NodeCurrent      = "node-current"
	BalancerThere    = "balancer-there"
	BalancerGone     = "balancer-gone"
	BalancerCurrent  = "balancer-current"
	TargetsExact     = "targets-exact"
	AddressPublished = "address-published"
	ServiceReleased  = "service-released"
	RouteThere       = "route-there"
	RouteGone        = "route-gone"
)

// Differences returns everything that is not as it should be, in a stable order.
func (s *State) Differences() []Difference {
	return slices.Concat(s.nodeDifferences(), s.serviceDifferences(), s.balancerDifferences(), s.routeDifferences())
}

func (s *State) nodeDifferences() []Difference {
	var found []Difference
	find := s.instances()
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		node := s.Nodes[name]
		add := func(rule, detail string) { found = append(found, Difference{rule, "node " + name, detail}) }
		if Foreign(node.Name) {
			continue
		}
		instance, exists := find(node)
		switch {
		case !exists && node.Ready == Silent && node.ProviderID != "":
			add(NodeGone, "its instance is gone, its kubelet is silent, and the node is there")
		case !exists:
		case node.Uninitialized || node.ProviderID == "":
			add(NodeInitialized, "its instance exists, and it is not initialized")
		case node.Shutdown != (instance.Stopped && node.Ready != Ready):
			add(NodeShutdown, fmt.Sprintf("its shutdown taint is %t, its instance is stopped: %t, Ready is %s", node.Shutdown, instance.Stopped, node.Ready))
		case node.MachineType != instance.MachineType:
			add(NodeCurrent, fmt.Sprintf("its instance type is %q, its instance has %q", node.MachineType, instance.MachineType))
		case !slices.Equal(node.IPs, instance.IPs):
			add(NodeCurrent, fmt.Sprintf("its addresses are %q, its instance has %q", node.IPs, instance.IPs))
		}
	}
	return found
}

// instances returns what finds the instance of a node: by its provider ID or, if it has none, by its name.
func (s *State) instances() func(Node) (Instance, bool) {
	byID, byName := map[string]Instance{}, map[string]Instance{}
	for _, instance := range s.Instances {
		byID[ProviderID(instance.ID)], byName[instance.Name] = instance, instance
	}
	return func(node Node) (Instance, bool) {
		if node.ProviderID == "" {
			instance, exists := byName[node.Name]
			return instance, exists
		}
		instance, exists := byID[node.ProviderID]
		return instance, exists
	}
}

func (s *State) serviceDifferences() []Difference {
	var found []Difference
	byUID := map[string]Balancer{}
	for _, balancer := range s.Balancers {
		byUID[balancer.ServiceUID] = balancer
	}
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		service := s.Services[name]
		add := func(rule, detail string) { found = append(found, Difference{rule, "service " + name, detail}) }
		balancer, exists := byUID[service.UID]
		switch {
		case Foreign(name):
		case service.Wants() && (!exists || balancer.Failed):
			add(BalancerThere, "it has no load balancer")
		case service.Wants() && balancer.Port != service.Port:
			add(BalancerCurrent, fmt.Sprintf("its port is %d, and its load balancer has port %d", service.Port, balancer.Port))
		case service.Wants() && !slices.Equal(service.Addresses, balancer.Addresses):
			add(AddressPublished, fmt.Sprintf("its status has %q, its load balancer has %q", service.Addresses, balancer.Addresses))
		case service.Deleting:
			add(ServiceReleased, "it is being deleted, and something keeps it")
		case !service.Wants() && len(service.Addresses) > 0:
			add(ServiceReleased, "its type is no longer LoadBalancer, and its status has addresses")
		}
	}
	return found
}

func (s *State) balancerDifferences() []Difference {
	var found []Difference
	services := map[string]Service{}
	for _, service := range s.Services {
		services[service.UID] = service
	}
	wanted := s.targets()
	for _, name := range slices.Sorted(maps.Keys(s.Balancers)) {
		balancer := s.Balancers[name]
		if balancer.ServiceUID == "" || balancer.Failed {
			continue
		}
		service := services[balancer.ServiceUID]
		if !service.Wants() {
			found = append(found, Difference{BalancerGone, "balancer " + name, "no Service of this cluster wants it"})
			continue
		}
		if !slices.Equal(balancer.Targets, wanted) {
			found = append(found, Difference{TargetsExact, "service " + service.Name, difference(balancer.Targets, wanted)})
		}
	}
	return found
}

// targets returns the instances that all load balancers shall have as targets, sorted.
func (s *State) targets() []string {
	var ids []string
	for _, node := range s.Nodes {
		id, ours := strings.CutPrefix(node.ProviderID, ProviderID(""))
		if ours && node.eligible() && !Foreign(node.Name) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (s *State) routeDifferences() []Difference {
	var found []Difference
	byCIDR := map[string]Route{}
	for _, route := range s.Routes {
		if route.Ours {
			byCIDR[route.CIDR] = route
		}
	}
	wanted, find := map[string]bool{}, s.instances()
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		node := s.Nodes[name]
		instance, exists := find(node)
		if Foreign(name) || node.PodCIDR == "" {
			continue
		}
		wanted[node.PodCIDR] = true
		if exists && !node.Uninitialized && byCIDR[node.PodCIDR].InstanceID != instance.ID {
			found = append(found, Difference{RouteThere, "node " + name, "there is no route to " + node.PodCIDR + " by its instance"})
		}
	}
	for _, cidr := range slices.Sorted(maps.Keys(byCIDR)) {
		if !wanted[cidr] {
			found = append(found, Difference{RouteGone, "route " + cidr, "no node has that range"})
		}
	}
	return found
}

// difference says what is too much and what is missing. Both lists are sorted.
func difference(is, wanted []string) string {
	return fmt.Sprintf("too much: %s, missing: %s", few(Without(is, wanted)), few(Without(wanted, is)))
}

// few shows the first of many.
func few(all []string) string {
	const most = 5
	if len(all) <= most {
		return fmt.Sprintf("%q", all)
	}
	return fmt.Sprintf("%q and %d more", all[:most], len(all)-most)
}

// Without returns what is in a and not in b. Both are sorted, and read once: load balancers have thousands of targets.
func Without(a, b []string) []string {
	var left []string
	for _, one := range a {
		for len(b) > 0 && b[0] < one {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != one {
			left = append(left, one)
		}
	}
	return left
}

// foreignPrefix begins the names of objects that belong to another owner.
const foreignPrefix = "foreign-"

// Foreign says whether an object belongs to another owner, by its name.
func Foreign(name string) bool { return strings.HasPrefix(name, foreignPrefix) }
