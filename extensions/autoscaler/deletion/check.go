package deletion

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
)

// Asked is a node as the autoscaler names it. An instance whose node never registered has its provider ID as its name.
type Asked struct {
	Name, ProviderID string
}

// Registered reports whether the autoscaler has seen a Node of that name.
func (a Asked) Registered() bool { return a.Name != a.ProviderID }

// Facts are what a request is held against.
type Facts struct {
	Group provider.NodeGroup
	// Status is what the cloud says of the group now.
	Status provider.NodeGroupStatus
	// Nodes are the requested nodes that exist, by name, as the API server has them now.
	Nodes map[string]*corev1.Node
	// Holders are the names of the nodes that have a provider ID. Of an instance without a node they are from a complete list.
	Holders map[string][]string
	// Pending are the instances of the group that are to be deleted already.
	Pending map[string]types.NodeName
	// GroupOf returns the group that an instance is of as far as is known, empty if none is known.
	GroupOf func(providerID string) string
	// Ours says whose a node is.
	Ours func(*corev1.Node) bool
}

// Plan is what a request comes to.
type Plan struct {
	// Mark are the nodes that are to get the intent.
	Mark []*corev1.Node
	// Delete are the provider IDs of instances without a node.
	Delete []string
}

// Violation is one thing that speaks against a request.
type Violation struct {
	// Node is the node's name as it was asked for, empty if it is about the group.
	Node    string
	Problem string
}

// Error names the node.
func (v Violation) Error() string {
	if v.Node == "" {
		return v.Problem
	}
	return fmt.Sprintf("node %q: %s", v.Node, v.Problem)
}

// Check returns what is to be done about a request, or everything that speaks against it, and then nothing is to be done. What was asked for
// before, or has happened, is nothing to do.
func Check(asked []Asked, facts Facts) (Plan, []Violation) {
	var plan Plan
	var violations []Violation
	healthy, failed := 0, 0
	seen := map[Asked]bool{}
	for _, one := range asked {
		if seen[one] {
			continue
		}
		seen[one] = true
		instance, problems := facts.check(one)
		for _, problem := range problems {
			violations = append(violations, Violation{one.Name, problem})
		}
		if len(problems) > 0 || instance == nil {
			continue
		}
		if node := facts.Nodes[one.Name]; node != nil {
			plan.Mark = append(plan.Mark, node)
		} else {
			plan.Delete = append(plan.Delete, one.ProviderID)
		}
		if instance.Error != nil {
			failed++
		} else {
			healthy++
		}
	}
	if after := facts.size() - healthy - failed; healthy > 0 && after < facts.Group.Min {
		violations = append(violations, Violation{Problem: fmt.Sprintf("the group would have %d, and its minimum is %d", after, facts.Group.Min)})
	}
	if len(violations) > 0 {
		return Plan{}, violations
	}
	return plan, nil
}

// size is how many the group will have without the request.
func (f Facts) size() int { return TargetSize(f.Status, f.Pending) }

// TargetSize is the size that a group will have when what is to be deleted is. Pending are the instances that the cloud does not know of as such.
func TargetSize(status provider.NodeGroupStatus, pending map[string]types.NodeName) int {
	size := status.TargetSize
	for _, instance := range status.Instances {
		if _, found := pending[instance.ProviderID]; found && instance.State != provider.NodeGroupInstanceDeleting {
			size--
		}
	}
	return max(size, 0)
}

// check returns the instance that is to be deleted, nil if there is nothing to do, or what speaks against it.
func (f Facts) check(asked Asked) (*provider.NodeGroupInstance, []string) {
	if asked.Name == "" || asked.ProviderID == "" {
		return nil, []string{fmt.Sprintf("has the name %q and the provider ID %q: both are needed", asked.Name, asked.ProviderID)}
	}
	var instance *provider.NodeGroupInstance
	if i := slices.IndexFunc(f.Status.Instances, func(i provider.NodeGroupInstance) bool { return i.ProviderID == asked.ProviderID }); i >= 0 {
		instance = &f.Status.Instances[i]
	}
	node := f.Nodes[asked.Name]
	var problems []string
	if node == nil {
		problems = f.unregistered(asked, instance)
	} else {
		problems = f.registered(asked, node, instance)
	}
	switch {
	case len(problems) > 0:
		return nil, problems
	case instance == nil, instance.State == provider.NodeGroupInstanceDeleting:
		return nil, nil // it has happened
	}
	if _, pending := f.Pending[asked.ProviderID]; pending && node != nil {
		return nil, nil // it was asked for before
	}
	return instance, nil
}

// unregistered returns what speaks against the deletion of an instance that has no node of the name.
func (f Facts) unregistered(asked Asked, instance *provider.NodeGroupInstance) (problems []string) {
	group := f.GroupOf(asked.ProviderID)
	switch {
	case instance == nil && group != "" && group != f.Group.ID:
		return []string{fmt.Sprintf("the instance is of the group %q", group)}
	case instance == nil:
		return nil
	case asked.Registered():
		problems = append(problems, "the node does not exist, and its instance does")
	}
	if holders := f.Holders[asked.ProviderID]; len(holders) > 0 {
		problems = append(problems, "the instance has a node: "+strings.Join(holders, ", "))
	}
	return problems
}

// registered returns what speaks against the deletion of a node's instance.
func (f Facts) registered(asked Asked, node *corev1.Node, instance *provider.NodeGroupInstance) (problems []string) {
	if node.Spec.ProviderID != asked.ProviderID {
		problems = append(problems, fmt.Sprintf("its provider ID is %q, not %q", node.Spec.ProviderID, asked.ProviderID))
	}
	if !Announced(node) {
		problems = append(problems, "it does not carry the taint "+Taint)
	}
	if !f.Ours(node) {
		problems = append(problems, "it is not a node of this cloud controller manager")
	}
	if problem := WrongInstance(node, instance, f.Holders[asked.ProviderID]); problem != "" {
		problems = append(problems, problem)
	}
	_, pending := f.Pending[asked.ProviderID]
	if instance == nil && !pending {
		group := f.GroupOf(asked.ProviderID)
		if group == "" || group == f.Group.ID {
			group = "none that is known"
		}
		problems = append(problems, fmt.Sprintf("the cloud says that its instance is not in the group %q, but in %s", f.Group.ID, group))
	}
	return problems
}

// WrongInstance returns why an instance may belong to another node, empty if nothing suggests that. Holders are the names of the nodes that have its
// provider ID: a kubelet can register with any.
func WrongInstance(node *corev1.Node, instance *provider.NodeGroupInstance, holders []string) string {
	if instance != nil && instance.NodeName != "" && string(instance.NodeName) != node.Name {
		return fmt.Sprintf("the cloud says that its instance belongs to the node %q", instance.NodeName)
	}
	if others := slices.DeleteFunc(slices.Clone(holders), func(name string) bool { return name == node.Name }); len(others) > 0 {
		return "other nodes have its provider ID: " + strings.Join(others, ", ")
	}
	return ""
}
