package service

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/mooring-ccm/mooring/internal/names"
)

const (
	// Finalizer keeps a Service from vanishing before its load balancer has (KEP-980). It is put on the Service before anything
	// is made in the cloud, and it is the reference's.
	Finalizer = servicehelpers.LoadBalancerCleanupFinalizer
	// ConditionReady is the type of the condition on a Service that says whether its load balancer is as the Service asks. Its
	// presence also says that this controller has taken the Service on.
	ConditionReady = names.ConditionLoadBalancerReady
)

// Classes say which Services of type LoadBalancer are ours, by their spec.loadBalancerClass (KEP-1959).
type Classes struct {
	// Names are the classes that are ours.
	Names []string
	// Default says that Services without a class are ours.
	Default bool
}

// handles reports whether a Service is of type LoadBalancer and ours.
func (c Classes) handles(service *corev1.Service) bool {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return false
	}
	if class := service.Spec.LoadBalancerClass; class != nil {
		return slices.Contains(c.Names, *class)
	}
	return c.Default
}

// intent is what shall become of a Service's load balancer.
type intent int

const (
	// leave Services are no concern of ours.
	leave intent = iota
	// provide Services shall have a load balancer.
	provide
	// withdraw Services shall lose theirs, and then the finalizer.
	withdraw
)

// intentFor decides about a Service; nil is one that is gone. Known says that this process has made its load balancer.
//
// See ADR 40.
func intentFor(service *corev1.Service, classes Classes, known bool) intent {
	switch {
	case service == nil && known:
		return withdraw
	case service == nil:
		return leave
	case service.DeletionTimestamp.IsZero() && classes.handles(service):
		return provide
	case known:
		return withdraw
	case hasFinalizer(service) && needsCleanup(service) && takenOn(service, classes):
		return withdraw
	default:
		return leave
	}
}

// needsCleanup reports whether a Service that has the finalizer must lose its load balancer.
func needsCleanup(service *corev1.Service) bool {
	return !service.DeletionTimestamp.IsZero() || !wantsBalancer(service)
}

// takenOn reports whether a Service that has the finalizer may have got it from us. The finalizer does not show that: other implementations
// use the same one, and to take theirs away would leak what they made. A class that is ours does. Our condition says that it was
// this program, which another manager of the cluster may run as well: see hasMade.
func takenOn(service *corev1.Service, classes Classes) bool {
	return ofOurClass(service, classes) || conditionOf(service) != nil
}

// ofOurClass reports whether a Service is of a class that is ours. One that has changed its type has lost its class with it, and is
// taken for one that had none.
func ofOurClass(service *corev1.Service, classes Classes) bool {
	return classes.handles(service) || !wantsBalancer(service) && classes.Default
}

func wantsBalancer(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

var hasFinalizer = servicehelpers.HasLBFinalizer

// followed are what of a Service its load balancer follows, by path, in the order in which they are in a digest. A change of anything else is no reason
// to touch it.
var followed = []struct {
	path string
	of   func(*corev1.Service) any
}{
	{"metadata.uid", func(s *corev1.Service) any { return s.UID }},
	{"metadata.annotations", func(s *corev1.Service) any { return s.Annotations }},
	{"spec.loadBalancerClass", func(s *corev1.Service) any { return s.Spec.LoadBalancerClass }},
	{"spec.ports", func(s *corev1.Service) any { return s.Spec.Ports }},
	{"spec.loadBalancerSourceRanges", func(s *corev1.Service) any { return s.Spec.LoadBalancerSourceRanges }},
	{"spec.sessionAffinity", func(s *corev1.Service) any { return s.Spec.SessionAffinity }},
	{"spec.sessionAffinityConfig", func(s *corev1.Service) any { return s.Spec.SessionAffinityConfig }},
	{"spec.loadBalancerIP", func(s *corev1.Service) any { return s.Spec.LoadBalancerIP }},
	{"spec.externalIPs", func(s *corev1.Service) any { return s.Spec.ExternalIPs }},
	{"spec.externalTrafficPolicy", func(s *corev1.Service) any { return s.Spec.ExternalTrafficPolicy }},
	{"spec.healthCheckNodePort", func(s *corev1.Service) any { return s.Spec.HealthCheckNodePort }},
	{"spec.ipFamilies", func(s *corev1.Service) any { return s.Spec.IPFamilies }},
}

// targetRole is what a node is to load balancers.
//
// See ADR 41.
type targetRole int

const (
	// outside nodes are no targets: they are excluded by label.
	outside targetRole = iota
	// leaving nodes are about to go: deleted, or tainted by the cluster autoscaler. No set that is written holds one, but one
	// that is a target already is not by itself a reason to write a new set (KEP-3458): its connections may end in peace, and
	// kube-proxy's health check turns new ones away (KEP-3836).
	leaving
	// member nodes are targets, whether they are ready or not: that is for the health check of the load balancer to find out.
	member
)

// roleOf returns the role of a node that may be a target, see nodeRecord.
func roleOf(node *corev1.Node) targetRole {
	result := member
	if !node.DeletionTimestamp.IsZero() {
		result = leaving
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == names.TaintToBeDeleted {
			result = leaving
		}
	}
	if value, labeled := node.Labels[corev1.LabelNodeExcludeBalancers]; labeled {
		if excluded, err := strconv.ParseBool(value); err != nil || excluded {
			return outside
		}
	}
	return result
}

// wasInitialized reports whether a cloud controller manager has initialized a node: it has no taint that asks for that, or the taint came back
// to a node that has what is written at the initialization.
func wasInitialized(node *corev1.Node) bool {
	if !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintExternalCloudProvider }) {
		return true
	}
	_, hasType := node.Labels[corev1.LabelInstanceTypeStable]
	_, hasZone := node.Labels[corev1.LabelTopologyZone]
	return node.Spec.ProviderID != "" && (hasType || hasZone)
}

// hasNetwork reports whether the network of a node is available, or was: a kubelet that was ready had one. A kubelet registers its node as not
// ready, and that its first transition is a later one says that it was.
func hasNetwork(node *corev1.Node) bool {
	_, network := nodeutil.GetNodeCondition(&node.Status, corev1.NodeNetworkUnavailable)
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return network == nil || network.Status != corev1.ConditionTrue || ready != nil &&
		(ready.Status != corev1.ConditionFalse || ready.LastTransitionTime.After(node.CreationTimestamp.Add(registration)))
}

// registration is how long after the creation of its Node a kubelet may say for the first time that it is not ready.
const registration = 10 * time.Second

// identityOf is what a plugin may know a target by. When it changes, load balancers have to be updated.
func identityOf(node *corev1.Node) string {
	return strings.Join(append([]string{node.Spec.ProviderID}, ipsOf(node.Status.Addresses)...), " ")
}

// ipsOf are the internal and external addresses among all of a node, in an order of their own.
func ipsOf(addresses []corev1.NodeAddress) []string {
	ips := []string{}
	for _, address := range addresses {
		if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
			ips = append(ips, address.Address)
		}
	}
	slices.Sort(ips)
	return ips
}

// target is what a set keeps of a node. A node itself changes with each heartbeat, and sets live as long as load balancers that were given them.
type target struct {
	name       string
	uid        types.UID
	providerID string
	addresses  []corev1.NodeAddress
	labels     map[string]string
}

// marks are the provider ID and addresses of a target.
func (t target) marks() []string {
	if t.providerID == "" {
		return ipsOf(t.addresses)
	}
	return append(ipsOf(t.addresses), t.providerID)
}

// node returns what is known of a node that may be gone.
func (t target) node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: t.name, UID: t.uid, Labels: t.labels},
		Spec:       corev1.NodeSpec{ProviderID: t.providerID},
		Status:     corev1.NodeStatus{Addresses: t.addresses},
	}
}

// targetSet is the set of nodes behind every load balancer. It is not changed once it is built.
type targetSet struct {
	// nodes are the members by name.
	nodes []target
	// members are their identities by name.
	members map[string]string
	// leaving are the names of the nodes that may stay until the next change.
	leaving map[string]bool
	// labelled is the same set for Services that select their targets by labels of nodes.
	labelled func() *targetSet
	// digest is the digest of the members without labels; nil: it is computed each time, see sum.
	digest func() string
}

// targetsOf builds the set from all nodes that may be targets.
func targetsOf(nodes []*corev1.Node) *targetSet {
	set := &targetSet{members: map[string]string{}, leaving: map[string]bool{}}
	for _, node := range nodes {
		switch roleOf(node) {
		case member:
			set.nodes = append(set.nodes, target{node.Name, node.UID, node.Spec.ProviderID, node.Status.Addresses, node.Labels})
			set.members[node.Name] = identityOf(node)
		case leaving:
			set.leaving[node.Name] = true
		case outside:
		}
	}
	slices.SortFunc(set.nodes, func(a, b target) int { return strings.Compare(a.name, b.name) })
	set.labelled = set.withLabels
	return set
}

// withLabels returns the set with the labels of nodes as a part of their identities.
func (t *targetSet) withLabels() *targetSet {
	labelled := *t
	labelled.members = make(map[string]string, len(t.members))
	for _, node := range t.nodes {
		labelled.members[node.name] = t.members[node.name] + " " + labels.FormatLabels(node.labels)
	}
	return &labelled
}

// targetChange is by which nodes a set differs from one that was written.
type targetChange struct {
	add, remove []target
}

// of returns the nodes to add as they are now, and those to remove as they were last known.
func (c *targetChange) of(nodes []*corev1.Node) (add, remove []*corev1.Node) {
	added := map[string]bool{}
	for _, node := range c.add {
		added[node.name] = true
	}
	for _, node := range nodes {
		if added[node.Name] {
			add = append(add, node)
		}
	}
	for _, gone := range c.remove {
		remove = append(remove, gone.node())
	}
	return add, remove
}

// changeFrom returns the change that makes of the targets that were written those of the set. Nil: the whole set is to be written,
// because that is less, or because a cloud might take a node that goes for one that stays or comes: a node that has changed, and one
// that has left its provider ID or address to another.
func (t *targetSet) changeFrom(written *targetSet) *targetChange {
	change := &targetChange{}
	marks := map[string]bool{}
	for _, node := range t.nodes {
		identity, there := written.members[node.name]
		if there && identity != t.members[node.name] {
			return nil
		}
		if !there {
			change.add = append(change.add, node)
		}
		for _, mark := range node.marks() {
			marks[mark] = true
		}
	}
	for _, node := range written.nodes {
		if _, stays := t.members[node.name]; stays {
			continue
		}
		if slices.ContainsFunc(node.marks(), func(mark string) bool { return marks[mark] }) {
			return nil
		}
		change.remove = append(change.remove, node)
	}
	if len(change.add)+len(change.remove) >= len(t.nodes) {
		return nil
	}
	return change
}

// loses reports whether a target of the set is none in the next one and is to be removed: it was excluded or its Node was deleted.
func (t *targetSet) loses(next *targetSet) bool {
	for name := range t.members {
		if _, stays := next.members[name]; !stays && !next.leaving[name] {
			return true
		}
	}
	return false
}

// listedAs is servedBy for a load balancer as the cloud lists it, which knows names only. It returns what is missing and what
// is there beyond that, in order.
func (t *targetSet) listedAs(listed []types.NodeName) (missing, surplus []string) {
	present := map[string]bool{}
	for _, name := range listed {
		present[string(name)] = true
		if _, isMember := t.members[string(name)]; !isMember && !t.leaving[string(name)] {
			surplus = append(surplus, string(name))
		}
	}
	for name := range t.members {
		if !present[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	slices.Sort(surplus)
	return missing, slices.Compact(surplus)
}

func namesOf(nodes []*corev1.Node) []string {
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return names
}
