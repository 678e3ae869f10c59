package dryrun

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/go-openapi/jsonpointer"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/mooring-ccm/mooring/ccm/plan"
)

// patched returns what an object would be after a patch, both as JSON.
func patched(before []byte, typed runtime.Object, kind types.PatchType, patch []byte) ([]byte, error) {
	switch kind {
	case types.JSONPatchType:
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, fmt.Errorf("reading the JSON patch: %w", err)
		}
		return operations.Apply(before)
	case types.StrategicMergePatchType:
		return strategicpatch.StrategicMergePatch(before, patch, typed)
	case types.MergePatchType:
		return jsonpatch.MergePatch(before, patch)
	default:
		return nil, fmt.Errorf("patches of type %q are not supported under --dry-run", kind)
	}
}

// changesBetween compares two JSON documents field by field, in the order of their paths. Lists of objects are compared element
// by element, by their place.
func changesBetween(before, after []byte) ([]plan.Change, error) {
	var from, to any
	if err := json.Unmarshal(before, &from); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	if err := json.Unmarshal(after, &to); err != nil {
		return nil, fmt.Errorf("reading the changed object: %w", err)
	}
	return compare("", from, to), nil
}

func compare(path string, from, to any) []plan.Change {
	if reflect.DeepEqual(from, to) {
		return nil
	}
	if a, b, both := asMaps(from, to); both {
		var changes []plan.Change
		for _, name := range slices.Sorted(maps.Keys(union(a, b))) {
			changes = append(changes, compare(path+"/"+jsonpointer.Escape(name), a[name], b[name])...)
		}
		return changes
	}
	a, isList := from.([]any)
	b, both := to.([]any)
	if !isList || !both {
		return []plan.Change{{Path: path, From: from, To: to}}
	}
	var changes []plan.Change
	for i := range max(len(a), len(b)) {
		changes = append(changes, compare(fmt.Sprintf("%s/%d", path, i), element(a, i), element(b, i))...)
	}
	return changes
}

// asMaps returns both as maps if there is one among them and the other is one or nothing.
func asMaps(from, to any) (a, b map[string]any, ok bool) {
	a, isMap := from.(map[string]any)
	b, both := to.(map[string]any)
	return a, b, isMap && both || isMap && to == nil || both && from == nil
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return all
}

func element(list []any, at int) any {
	if at < len(list) {
		return list[at]
	}
	return nil
}
