package kit

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Only the API server's own statement about this very object counts. Other programs that answer requests have their own 404.
func TestGone(t *testing.T) {
	nodes := corev1.Resource("nodes")
	proxy := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", nodes, "a", "default backend - 404", 0, true)
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"the API server":       {apierrors.NewNotFound(nodes, "a"), true},
		"the API server, told": {wrapped(apierrors.NewNotFound(nodes, "a")), true},
		"no error":             {nil, false},
		"a proxy":              {proxy, false},
		"another object":       {apierrors.NewNotFound(nodes, "b"), false},
		"another resource":     {apierrors.NewNotFound(corev1.Resource("namespaces"), "a"), false},
		"another group":        {apierrors.NewNotFound(schema.GroupResource{Group: "x", Resource: "nodes"}, "a"), false},
		"no rights":            {apierrors.NewForbidden(nodes, "a", errors.New("x")), false},
		"no API server":        {errors.New("connection refused"), false},
	} {
		if got := Gone(test.err, nodes, "a"); got != test.want {
			t.Errorf("%s: %v says that the node is gone: %t, want %t", name, test.err, got, test.want)
		}
	}
}
