// Package jsonpatch makes JSON patches (RFC 6902) that test all that they rest on, so each takes effect only on the object that it was
// planned for.
package jsonpatch

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/go-openapi/jsonpointer"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operation is one operation of a patch. A test for nil is one for absence.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch is a patch that a client can send.
type Patch []Operation

// Type implements client.Patch.
func (p Patch) Type() types.PatchType { return types.JSONPatchType }

// Data implements client.Patch. The object is not looked at.
func (p Patch) Data(client.Object) ([]byte, error) { return json.Marshal(p) }

// Same makes a patch fail for another object of the same name.
func Same(uid types.UID) Operation {
	return Operation{Op: "test", Path: "/metadata/uid", Value: uid}
}

// Replace returns a patch that replaces a list of an object by another one, if it has not changed since. The API server leaves an empty list out.
func Replace[T any](uid types.UID, path string, before, after []T) Patch {
	test := Operation{Op: "test", Path: path}
	if len(before) > 0 {
		test.Value = before
	}
	return Patch{{Op: "test", Path: "/metadata/uid", Value: uid}, test, {Op: "add", Path: path, Value: after}}
}

// Member is the path of a member of a map (RFC 6901).
func Member(path, key string) string {
	return path + "/" + jsonpointer.Escape(key)
}

// Values returns a patch that turns a map of texts into another one, key by key in order, if none of the keys has changed since.
func Values(path string, before, after map[string]string) (patch Patch) {
	if maps.Equal(before, after) {
		return nil
	}
	keys := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		old, had := before[key]
		value, has := after[key]
		if had == has && old == value {
			continue
		}
		at := path + "/" + jsonpointer.Escape(key)
		test, change := Operation{Op: "test", Path: at}, Operation{Op: "remove", Path: at}
		if had {
			test.Value = old
		}
		if has {
			change = Operation{Op: "add", Path: at, Value: value}
		}
		patch = append(patch, test, change)
	}
	if len(before) == 0 && len(patch) > 0 {
		// The API server leaves an empty map out, and a patch cannot add to what is not there.
		made := Patch{{Op: "test", Path: path}, {Op: "add", Path: path, Value: map[string]string{}}}
		patch = append(made, patch...)
	}
	return patch
}
