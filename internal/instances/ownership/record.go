package ownership

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

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
