package ownership

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationProven on a Node records that the provider has proven it to be its own, so that the next leader knows without an answer:
// the instance may be gone by then. The value names the provider and the node's provider ID, as a JSON object, so that one that was
// copied from another node, or was written by the manager of another provider, says nothing.
//
// See ADR 16.
const AnnotationProven = "mooring.dev/proven"

// proof is the value of AnnotationProven.
type proof struct {
	Provider   string `json:"provider"`
	ProviderID string `json:"providerID"`
}

// Record returns the value of AnnotationProven for a node with a provider ID for which the plugin answered with the provider ID
// answered, empty if its answer held none. It is empty for a node that needs no record because the rules say whose it is, and for
// one of which the answer proves nothing.
func (r Rules) Record(providerID, answered string) string {
	if providerID == "" || r.ProviderName == "" {
		return ""
	}
	decision := Decision{nodeProviderID: providerID}
	decision.Owner, _ = r.decideByID(providerID, nil)
	if decision.Owner != Unproven || !decision.ProvenBy(answered) {
		return ""
	}
	record, err := json.Marshal(proof{Provider: r.ProviderName, ProviderID: providerID})
	if err != nil {
		return "" // texts always encode; without a record the node is in doubt, as before
	}
	return string(record)
}

// recorded reports whether a node carries a record that is its own.
func (r Rules) recorded(node *corev1.Node) bool {
	value, found := node.Annotations[AnnotationProven]
	if !found || r.ProviderName == "" || node.Spec.ProviderID == "" {
		return false
	}
	var record proof
	if err := json.Unmarshal([]byte(value), &record); err != nil {
		return false
	}
	return record == proof{Provider: r.ProviderName, ProviderID: node.Spec.ProviderID}
}

// decideByRecord is decideByID for a node that may carry a record. A record overrules no declaration.
func (r Rules) decideByRecord(node *corev1.Node, proven func(string) bool) (Owner, string) {
	owner, reason := r.decideByID(node.Spec.ProviderID, proven)
	if owner == Unproven && r.recorded(node) {
		return Ours, fmt.Sprintf("the annotation %s records that the provider has answered for the node", AnnotationProven)
	}
	return owner, reason
}
