package cloud

import (
	"maps"
	"slices"
	"sync"
	"weak"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// What a plugin gets is its own, and what it returns is ours: plugins write annotations into Services, sort lists and keep what they
// got, also after their call was given up. What one call does to its arguments is seen by no other call and by no cache.

// copied returns a list of copies.
func copied[E any](all []E, own func(E) E) []E {
	copies := slices.Clone(all)
	for i := range copies {
		copies[i] = own(copies[i])
	}
	return copies
}

func copiesOf(nodes []*v1.Node) []*v1.Node { return copied(nodes, copyOfNode) }

// targets copies lists of all nodes. Each load balancer gets the same list, and copies of its labels and addresses took half the processor time of
// many Ensures. So calls with one list share what nodes point to, as they do with the reference, but neither the nodes nor the list.
type targets struct {
	mu     sync.Mutex
	of     weak.Pointer[*v1.Node] // the first place of a list, which does not change
	copies weak.Pointer[[]v1.Node]
}

func (t *targets) copiesOf(nodes []*v1.Node) []*v1.Node {
	if len(nodes) == 0 {
		return slices.Clone(nodes)
	}
	own := slices.Clone(t.once(nodes))
	copies := make([]*v1.Node, len(own))
	for i := range own {
		copies[i] = &own[i]
	}
	return copies
}

// once returns the copies of a list that are there while memory allows, or makes them.
func (t *targets) once(nodes []*v1.Node) []v1.Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := weak.Make(&nodes[0])
	if made := t.copies.Value(); made != nil && t.of == of && len(*made) == len(nodes) {
		return *made
	}
	copies := make([]v1.Node, len(nodes))
	for i, node := range nodes {
		copies[i] = *copyOfNode(node)
	}
	t.of, t.copies = of, weak.Make(&copies)
	return copies
}

// copyOfNode copies what a plugin may change in place.
func copyOfNode(node *v1.Node) *v1.Node {
	if node == nil {
		return nil
	}
	own := *node
	own.Labels, own.Annotations = maps.Clone(node.Labels), maps.Clone(node.Annotations)
	own.Finalizers, own.OwnerReferences = slices.Clone(node.Finalizers), slices.Clone(node.OwnerReferences)
	own.Spec.Taints, own.Spec.PodCIDRs = slices.Clone(node.Spec.Taints), slices.Clone(node.Spec.PodCIDRs)
	own.Status.Addresses, own.Status.Conditions = slices.Clone(node.Status.Addresses), slices.Clone(node.Status.Conditions)
	return &own
}

func copyOfRoute(route *cloudprovider.Route) *cloudprovider.Route {
	if route == nil {
		return nil
	}
	own := *route
	own.TargetNodeAddresses = slices.Clone(route.TargetNodeAddresses)
	return &own
}

func copyOfChange(change provider.RouteChange) provider.RouteChange {
	change.Old, change.New = copyOfRoute(change.Old), copyOfRoute(change.New)
	return change
}

func copyOfBalancer(balancer provider.LoadBalancer) provider.LoadBalancer {
	balancer.Status = *balancer.Status.DeepCopy()
	balancer.Ports, balancer.Targets = slices.Clone(balancer.Ports), slices.Clone(balancer.Targets)
	return balancer
}
