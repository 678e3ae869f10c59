// Package ownership decides which nodes this cloud controller manager may write to, and which take part in what the cloud does for
// all nodes: load balancers and routes. It is pure: the same node and rules always get the same owner.
//
// Several cloud controller managers, or a cloud and bare metal, may share a cluster. A node that says that it belongs to another one is
// never written and never asked for. Whose other provider IDs are, only the plugin knows, whatever they begin with: it gets their nodes,
// as from the reference.
package ownership

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodeutil "k8s.io/component-helpers/node/util"
)

// AnnotationIgnore on a Node makes it foreign to Mooring when its value is true, in any spelling of strconv.ParseBool.
const AnnotationIgnore = "mooring.dev/ignore"

// Owner says what may be done with a node.
type Owner int

const (
	// Unproven nodes have no provider ID. They may be asked for, and may be written only once the answer proves them ours; see
	// Decision.ProvenBy. It is the zero value, because it is the one that is safe without knowledge.
	Unproven Owner = iota
	// Ours are nodes that may be asked for and written.
	Ours
	// Foreign nodes are neither written nor asked for.
	Foreign
)

// String returns the owner in lower case, as in logs.
func (o Owner) String() string {
	switch o {
	case Ours:
		return "ours"
	case Foreign:
		return "foreign"
	default:
		return "unproven"
	}
}

// BareIDs is the scheme of provider IDs that have none: those of Alibaba Cloud are as "cn-hangzhou.i-1", those of Oracle's cloud as
// "ocid1.instance.oc1.phx.1".
const BareIDs = ""

// Decision is an owner with what led to it.
type Decision struct {
	// Owner says what may be done with the node.
	Owner Owner

	rules Rules
	node  *corev1.Node
	cause cause
}

// cause is what decides about a node.
type cause int

const (
	ignored cause = iota + 1
	notSelected
	noProviderID
	claimed
	noneDeclared
	declared
	notDeclared
)

// Rules say which nodes are ours. By the zero value all are that have a provider ID and do not say otherwise.
//
// See ADR 14.
type Rules struct {
	// Schemes are the provider-ID schemes that the provider declares as its own. When any is declared, all others are foreign.
	// BareIDs among them declares that provider IDs without a scheme are the provider's.
	Schemes []string
	// ProviderName is the name that a record on a node has to have, see AnnotationProven, and the scheme of nodes that need no record.
	ProviderName string
	// Selector selects the nodes that this process manages; nil selects all.
	Selector labels.Selector
}

// Decide decides about one node. The decision reads the node later, too. A declaration of schemes decides about a provider ID; else the plugin's
// word counts, which is asked for each question.
func (r Rules) Decide(node *corev1.Node) Decision {
	decided := func(owner Owner, by cause) Decision { return Decision{Owner: owner, rules: r, node: node, cause: by} }
	ignores, err := strconv.ParseBool(node.Annotations[AnnotationIgnore])
	switch {
	case err == nil && ignores:
		return decided(Foreign, ignored)
	case r.Selector != nil && !r.Selector.Matches(labels.Set(node.Labels)):
		return decided(Foreign, notSelected)
	case node.Spec.ProviderID == "":
		return decided(Unproven, noProviderID)
	case r.claimedBy(node) != "":
		return decided(Foreign, claimed)
	case len(r.Schemes) == 0:
		return decided(Ours, noneDeclared)
	}
	scheme, _ := Scheme(node.Spec.ProviderID)
	switch {
	case slices.ContainsFunc(r.Schemes, func(own string) bool { return strings.EqualFold(own, scheme) }):
		return decided(Ours, declared)
	default:
		return decided(Foreign, notDeclared)
	}
}

// Ours reports whether a node is ours by Decide.
func (r Rules) Ours(node *corev1.Node) bool { return r.Decide(node).Owner == Ours }

// Reason is a clause for logs and messages, such as `the node is annotated mooring.dev/ignore: "true"`.
func (d Decision) Reason() string {
	switch scheme, has := Scheme(d.node.Spec.ProviderID); {
	case d.cause == ignored:
		return fmt.Sprintf("the node is annotated %s: %q", AnnotationIgnore, d.node.Annotations[AnnotationIgnore])
	case d.cause == notSelected:
		return fmt.Sprintf("the node's labels do not match the node selector %q", d.rules.Selector)
	case d.cause == noProviderID:
		return "the node has no provider ID yet"
	case d.cause == claimed:
		return fmt.Sprintf("the annotation %s records that it is the provider %q's", AnnotationProven, d.rules.claimedBy(d.node))
	case d.cause == noneDeclared:
		return fmt.Sprintf("the node has the provider ID %q, and no provider-ID schemes are declared", d.node.Spec.ProviderID)
	case d.cause == declared:
		return fmt.Sprintf("the provider declares provider IDs such as %q", d.node.Spec.ProviderID)
	case !has:
		return fmt.Sprintf("the provider ID %q has no scheme; the provider's own are %q", d.node.Spec.ProviderID, d.rules.Schemes)
	default:
		return fmt.Sprintf("the provider ID has the scheme %q; the provider's own are %q", scheme, d.rules.Schemes)
	}
}

// ProvenBy reports whether a node is ours, given that the plugin answered for it with the provider ID answered (empty if its
// answer held none). It is true of every node that is ours already, and of no foreign one. A node without a provider ID that waits for its
// initialization is proven by being found. One that does not wait was not initialized from a cloud that has provider IDs, so
// finding an instance of its name proves nothing; it is proven only where the cloud has no provider IDs at all.
func (d Decision) ProvenBy(answered string) bool {
	return d.Owner == Ours || d.Owner == Unproven && (answered == "" || Uninitialized(d.node))
}

// NamesUnknownProvider reports whether the node's provider ID has a scheme that nothing but the plugin shows to be the provider's: it may well
// be another one's, and an error about it is not worth an event.
func (d Decision) NamesUnknownProvider() bool {
	scheme, has := Scheme(d.node.Spec.ProviderID)
	return has && d.cause == noneDeclared && !strings.EqualFold(scheme, d.rules.ProviderName) && !d.rules.recorded(d.node)
}

// Scheme returns the scheme of a provider ID, "aws" for "aws:///zone/i-1", and whether it has one. Some old providers hand
// out bare IDs.
func Scheme(providerID string) (string, bool) {
	scheme, _, found := strings.Cut(providerID, "://")
	if !found || scheme == "" {
		return "", false
	}
	return scheme, true
}

// Uninitialized reports whether a node carries the taint that asks a cloud controller manager to initialize it,
// node.cloudprovider.kubernetes.io/uninitialized.
func Uninitialized(node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == cloudproviderapi.TaintExternalCloudProvider {
			return true
		}
	}
	return false
}

// Ready reports whether the kubelet of a node says that it is ready.
func Ready(node *corev1.Node) bool {
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// AnnotationProven on a Node records that the provider has proven it to be its own, so the manager of another provider, whose plugin
// may deny it, leaves it alone. The value names the provider and the node's provider ID, as a JSON object, so one that was
// copied from another node says nothing.
//
// See ADR 16.
const AnnotationProven = "mooring.dev/proven"

// proof is the value of AnnotationProven.
type proof struct {
	Provider   string `json:"provider"`
	ProviderID string `json:"providerID"`
}

// Record returns the value of AnnotationProven for a node with a provider ID for which the plugin answered with the provider ID
// answered, empty if its answer held none. It is empty for a node that needs no record because its provider ID says whose it is, and for
// one of which the answer proves nothing: it is another ID, or has a scheme and there is none in the answer.
func (r Rules) Record(providerID, answered string) string {
	scheme, has := Scheme(providerID)
	switch {
	case providerID == "" || r.ProviderName == "":
		return "" // there is nothing to record
	case len(r.Schemes) > 0 || has && strings.EqualFold(scheme, r.ProviderName):
		return "" // the ID says whose the node is. The case of a scheme does not matter (RFC 3986, section 3.1)
	case answered != providerID && (answered != "" || has):
		return "" // the answer proves nothing
	}
	record, err := json.Marshal(proof{Provider: r.ProviderName, ProviderID: providerID})
	if err != nil {
		return "" // texts always encode; without a record only the plugin knows whose the node is
	}
	return string(record)
}

// recorded reports whether a node carries a record of this provider.
func (r Rules) recorded(node *corev1.Node) bool {
	return r.ProviderName != "" && recordOf(node) == r.ProviderName
}

// claimedBy returns the other provider that a node's record names, empty if there is none.
func (r Rules) claimedBy(node *corev1.Node) string {
	if provider := recordOf(node); provider != r.ProviderName && r.ProviderName != "" {
		return provider
	}
	return ""
}

// recordOf returns the provider that a node's record names, empty if it carries none that is its own.
func recordOf(node *corev1.Node) string {
	value, found := node.Annotations[AnnotationProven]
	if !found || node.Spec.ProviderID == "" {
		return ""
	}
	var record proof
	if err := json.Unmarshal([]byte(value), &record); err != nil || record.ProviderID != node.Spec.ProviderID {
		return ""
	}
	return record.Provider
}
