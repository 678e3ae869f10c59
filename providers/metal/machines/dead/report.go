package dead

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// reporter records warnings about one matter on nodes, each once for as long as its key stays the same.
type reporter struct {
	recorder record.EventRecorder
	// last are the keys of what was recorded last, by the UIDs of nodes.
	last map[types.UID]string
}

// report records a warning; with the key "" there is nothing to warn of.
func (r *reporter) report(node *v1.Node, key, reason, message string) {
	switch {
	case r.last[node.UID] == key:
	case key == "":
		delete(r.last, node.UID)
	default:
		r.last[node.UID] = key
		r.recorder.Event(node, v1.EventTypeWarning, reason, message)
	}
}

// forget leaves out nodes that are gone.
func (r *reporter) forget(present []*v1.Node) {
	kept := make(map[types.UID]string, len(r.last))
	for _, node := range present {
		if key, ok := r.last[node.UID]; ok {
			kept[node.UID] = key
		}
	}
	r.last = kept
}
