// Package jsonpatch makes JSON patches (RFC 6902) that test all that they rest on, so each takes effect only on the object that it was
// planned for.
package jsonpatch

import (
	"encoding/json"

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
	return Patch{Same(uid), test, {Op: "add", Path: path, Value: after}}
}

// Member is the path of a member of a map (RFC 6901).
func Member(path, key string) string {
	return path + "/" + jsonpointer.Escape(key)
}
