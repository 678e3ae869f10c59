package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
)

// NodeState is what a node is to its cloud controller manager.
type NodeState string

// The states of nodes. Of several that hold at once, the first in this order is shown.
const (
	// NodeForeign nodes belong to another manager.
	NodeForeign NodeState = "foreign"
	// NodeDeleting nodes are on their way out, and wait for finalizers.
	NodeDeleting NodeState = "deleting"
	// NodeHeld nodes are kept although the cloud denies their instances.
	NodeHeld NodeState = "held"
	// NodeUninitialized nodes wait for their initialization.
	NodeUninitialized NodeState = "uninitialized"
	// NodeOutOfService nodes carry the taint out-of-service: they stay off until it is removed, and their volumes are free.
	NodeOutOfService NodeState = "out of service"
	// NodeShutDown nodes have instances that are off.
	NodeShutDown NodeState = "shut down"
	// NodeWithoutID nodes neither have a provider ID nor wait for one: they were registered without an external cloud provider.
	NodeWithoutID NodeState = "without provider ID"
	// NodeInitialized nodes are as they should be.
	NodeInitialized NodeState = "initialized"
)

// Node is a node as it is shown.
type Node struct {
	Name  string    `json:"name"`
	State NodeState `json:"state"`
	// Since is from when on it is in that state, as far as that is known.
	Since time.Time `json:"since,omitzero"`
	// Why is the reason of a state that is not as it should be, and of a missing route.
	Why        string `json:"why,omitempty"`
	ProviderID string `json:"providerID,omitempty"`
	Type       string `json:"instanceType,omitempty"`
	Zone       string `json:"zone,omitempty"`
	// Routed says whether the network reaches its pods, as the condition NetworkUnavailable does; nil without that.
	Routed *bool `json:"routed,omitempty"`
	// Denied says that the cloud has denied its instance lately although its kubelet reports, as far as events show it.
	Denied bool `json:"denied,omitempty"`
	// Detail is there for a node that was asked for by name.
	Detail *Detail `json:"detail,omitempty"`
}

// deniedLately is how long an event about a ready node whose instance is denied counts: there is one every ten minutes.
const deniedLately = 30 * time.Minute

func nodesOf(seen Seen) []Node {
	if seen.Nodes == nil {
		return nil
	}
	rows := make([]Node, 0, len(seen.Nodes))
	for i := range seen.Nodes {
		rows = append(rows, nodeOf(&seen.Nodes[i], seen))
	}
	slices.SortFunc(rows, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

func nodeOf(of *corev1.Node, seen Seen) Node {
	row := Node{
		Name: of.Name, ProviderID: of.Spec.ProviderID,
		Type: of.Labels[corev1.LabelInstanceTypeStable], Zone: of.Labels[corev1.LabelTopologyZone],
	}
	row.State, row.Since, row.Why = stateOf(of, seen)
	if event := latest(seen.Events, "Node", "", of.Name, string(of.UID), names.ReasonInstanceNotFound); event != nil &&
		row.State == NodeInitialized && ownership.Ready(of) && seen.Now.Sub(timeOf(event)) < deniedLately {
		row.Denied, row.Why = true, because(event.Reason, event.Message)
	}
	if network := conditionOf(of, corev1.NodeNetworkUnavailable); network != nil && network.Status != corev1.ConditionUnknown {
		routed := network.Status == corev1.ConditionFalse
		row.Routed = &routed
		if !routed {
			row.Why = strings.TrimPrefix(row.Why+"; "+because(network.Reason, network.Message), "; ")
		}
	}
	return row
}

// stateOf returns a node's state, since when, and why.
func stateOf(of *corev1.Node, seen Seen) (state NodeState, since time.Time, why string) {
	rules := ownership.Rules{Schemes: seen.Schemes}
	if decision := rules.Decide(of); decision.Owner == ownership.Foreign {
		return NodeForeign, time.Time{}, decision.Reason()
	}
	if of.DeletionTimestamp != nil {
		return NodeDeleting, of.DeletionTimestamp.Time, "finalizers: " + strings.Join(of.Finalizers, ", ")
	}
	if held := conditionOf(of, names.ConditionInstanceGone); held != nil && held.Status == corev1.ConditionTrue {
		return NodeHeld, held.LastTransitionTime.Time, because(held.Reason, held.Message)
	}
	if taint := taintOf(of, cloudproviderapi.TaintExternalCloudProvider); taint != nil {
		return NodeUninitialized, of.CreationTimestamp.Time, whyUninitialized(of, seen.Events)
	}
	if taint := taintOf(of, corev1.TaintNodeOutOfService); taint != nil {
		return NodeOutOfService, addedAt(taint), ""
	}
	if taint := taintOf(of, cloudproviderapi.TaintNodeShutdown); taint != nil {
		return NodeShutDown, addedAt(taint), ""
	}
	if of.Spec.ProviderID == "" {
		return NodeWithoutID, time.Time{}, ""
	}
	return NodeInitialized, time.Time{}, ""
}

// whyUninitialized is what the newest event says of a failed initialization.
func whyUninitialized(of *corev1.Node, events []corev1.Event) string {
	event := latest(events, "Node", "", of.Name, string(of.UID),
		names.ReasonInstanceNotFound, names.ReasonAmbiguousInstance, names.ReasonProviderIDMissing, names.ReasonNodeIPMismatch,
		names.ReasonInvalidMetadata, names.ReasonCloudError, names.ReasonWriteFailed)
	if event == nil {
		return "no event says why; is a manager running?"
	}
	return because(event.Reason, event.Message)
}

func conditionOf(of *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range of.Status.Conditions {
		if of.Status.Conditions[i].Type == kind {
			return &of.Status.Conditions[i]
		}
	}
	return nil
}

func taintOf(of *corev1.Node, key string) *corev1.Taint {
	for i := range of.Spec.Taints {
		if of.Spec.Taints[i].Key == key {
			return &of.Spec.Taints[i]
		}
	}
	return nil
}

// addedAt is when a taint was added, zero if the taint does not say.
func addedAt(taint *corev1.Taint) time.Time {
	if taint.TimeAdded == nil {
		return time.Time{}
	}
	return taint.TimeAdded.Time
}

// nodeColors are how states are painted.
var nodeColors = map[NodeState]color{
	NodeInitialized: green, NodeHeld: red,
	NodeUninitialized: yellow, NodeShutDown: yellow, NodeOutOfService: yellow, NodeDeleting: yellow,
}

func writeNodes(out *strings.Builder, style Style, now time.Time, nodes []Node) {
	var rows [][]cell
	for _, one := range nodes {
		rows = append(rows, []cell{
			{text: one.Name}, {string(one.State), nodeColors[one.State]}, {text: age(now, one.Since)}, style.timestamp(one.Since),
			{text: one.ProviderID}, {text: one.Type}, {text: one.Zone}, yesNo(one.Routed), {text: one.Why},
		})
	}
	writeTable(out, style, []string{"NAME", "STATE", "FOR", "SINCE", "PROVIDER ID", "TYPE", "ZONE", "ROUTED", "WHY"}, rows)
}

// yesNo shows what may not be known.
func yesNo(known *bool) cell {
	switch {
	case known == nil:
		return cell{}
	case *known:
		return cell{"yes", green}
	default:
		return cell{"no", red}
	}
}
