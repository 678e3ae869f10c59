// Package ownership decides which nodes this cloud controller manager may write to, and which take part in what the cloud does for
// all nodes: load balancers and routes. It is pure: the same node, rules and evidence always get the same owner.
//
// Several cloud controller managers, or a cloud and bare metal, may share a cluster. A node that belongs to another one is
// never written and never asked for.
package ownership

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// AnnotationIgnore on a Node makes it foreign to Mooring when its value is true, in any spelling of strconv.ParseBool.
const AnnotationIgnore = "mooring.dev/ignore"

// Owner says what may be done with a node.
type Owner int

const (
	// Unproven nodes may be asked for, and may be written only once the answer proves them ours; see Decision.ProvenBy. It
	// is the zero value, because it is the one that is safe without knowledge.
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
	// Reason is a clause for logs and messages, such as `the provider ID has scheme "aws", which belongs to another provider`.
	Reason string

	nodeProviderID string
	tainted        bool
}

// Rules say which nodes are ours. By the zero value no node is ours without proof.
//
// See ADR 14.
type Rules struct {
	// Schemes are the provider-ID schemes that the provider declares as its own. When any is declared, all others are foreign.
	// BareIDs among them declares that provider IDs without a scheme are the provider's; without it, only the plugin knows whose they are.
	Schemes []string
	// ProviderName is the scheme that is ours when none is declared, as cloudprovider.GetInstanceProviderID builds provider IDs.
	ProviderName string
	// Selector selects the nodes that this process manages; nil selects all.
	Selector labels.Selector
}

// Decide decides about one node. proven reports whether the plugin has proven a scheme to be its own, see Evidence; it is
// only asked when no scheme is declared, and may be nil.
func (r Rules) Decide(node *corev1.Node, proven func(scheme string) bool) Decision {
	decision := Decision{nodeProviderID: node.Spec.ProviderID, tainted: Uninitialized(node)}
	decision.Owner, decision.Reason = r.decide(node, proven)
	return decision
}

func (r Rules) decide(node *corev1.Node, proven func(scheme string) bool) (Owner, string) {
	if ignored, err := strconv.ParseBool(node.Annotations[AnnotationIgnore]); err == nil && ignored {
		return Foreign, fmt.Sprintf("the node is annotated %s: %q", AnnotationIgnore, node.Annotations[AnnotationIgnore])
	}
	if r.Selector != nil && !r.Selector.Matches(labels.Set(node.Labels)) {
		return Foreign, fmt.Sprintf("the node's labels do not match the node selector %q", r.Selector)
	}
	if node.Spec.ProviderID == "" {
		return Unproven, "the node has no provider ID yet"
	}
	return r.decideByRecord(node, proven)
}

// decideByID decides by a provider ID.
func (r Rules) decideByID(providerID string, proven func(string) bool) (Owner, string) {
	scheme, ok := Scheme(providerID)
	switch {
	case ok:
		return r.decideByScheme(scheme, proven)
	case slices.Contains(r.Schemes, BareIDs):
		return Ours, fmt.Sprintf("provider IDs without a scheme, as %q, are declared to be the provider's", providerID)
	default:
		return Unproven, fmt.Sprintf("the provider ID %q has no scheme: only the plugin knows whose it is", providerID)
	}
}

func (r Rules) decideByScheme(scheme string, proven func(string) bool) (Owner, string) {
	for _, declared := range r.Schemes {
		if scheme == declared {
			return Ours, fmt.Sprintf("the provider declares the provider-ID scheme %q", scheme)
		}
	}
	switch {
	case len(r.Schemes) > 0:
		return Foreign, fmt.Sprintf("the provider ID has the scheme %q; the provider's own are %q", scheme, r.Schemes)
	case scheme == r.ProviderName:
		return Ours, fmt.Sprintf("the provider-ID scheme %q is the provider's name", scheme)
	case proven != nil && proven(scheme):
		return Ours, fmt.Sprintf("the provider has answered for nodes with the provider-ID scheme %q", scheme)
	default:
		return Unproven, fmt.Sprintf("the provider-ID scheme %q is neither declared nor the provider's name, %q",
			scheme, r.ProviderName)
	}
}

// ProvenBy reports whether a node is ours, given that the plugin answered for it with the provider ID answered (empty if its
// answer held none). It is true of every node that is ours already, and of no foreign one. For an unproven node:
//
//   - with a scheme, the answer must be exactly the node's provider ID;
//   - with an ID that has no scheme, the answer must not contradict it, because such an ID names no other provider;
//   - without a provider ID, a node that waits for its initialization is proven by being found. One that does not wait was
//     not initialized from a cloud that has provider IDs, so that finding an instance of its name proves nothing; it is
//     proven only where the cloud has no provider IDs at all.
func (d Decision) ProvenBy(answered string) bool {
	switch {
	case d.Owner != Unproven:
		return d.Owner == Ours
	case d.nodeProviderID == "":
		return d.tainted || answered == ""
	case answered == d.nodeProviderID:
		return true
	default:
		_, hasScheme := Scheme(d.nodeProviderID)
		return !hasScheme && answered == ""
	}
}

// NamesUnknownProvider reports whether the node is unproven although its provider ID has a scheme: it may well belong to
// somebody else, and is not even worth an event until it is proven.
func (d Decision) NamesUnknownProvider() bool {
	_, hasScheme := Scheme(d.nodeProviderID)
	return d.Owner == Unproven && hasScheme
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
