package kit

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConditionPatch is a strategic merge patch of one condition of an object. The API server merges conditions by type, so the patch keeps the
// conditions of concurrent writers.
type ConditionPatch struct {
	// Metadata is what the object must have, or else the API server refuses the patch: a UID or a resource version.
	Metadata map[string]any
	// Condition is what is written of the condition, with its type.
	Condition map[string]any
}

// Type implements client.Patch.
func (p ConditionPatch) Type() types.PatchType { return types.StrategicMergePatchType }

// Data implements client.Patch. The object is not looked at.
func (p ConditionPatch) Data(client.Object) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": p.Metadata, "status": map[string]any{"conditions": []any{p.Condition}}})
}
