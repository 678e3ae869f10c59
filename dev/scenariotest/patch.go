package scenariotest

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patched returns what an API server makes of an object by a patch: a JSON patch or a strategic merge patch, which a client sends for
// object.
func Patched[T any](before *T, object client.Object, patch client.Patch) (*T, error) {
	sent, err := patch.Data(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	encoded, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encoding what is patched: %w", err)
	}
	after := new(T)
	if patch.Type() == types.JSONPatchType {
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(sent); err == nil {
			encoded, err = operations.Apply(encoded)
		}
	} else {
		encoded, err = strategicpatch.StrategicMergePatch(encoded, sent, after)
	}
	if err != nil {
		return nil, fmt.Errorf("applying the patch %s: %w", sent, err)
	}
	if err := json.Unmarshal(encoded, after); err != nil {
		return nil, fmt.Errorf("decoding what was patched: %w", err)
	}
	return after, nil
}
