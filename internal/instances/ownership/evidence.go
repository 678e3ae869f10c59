package ownership

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// forgetAfter is how long a proof of a node is kept that a list of all nodes does not show: the list may be from before the node came.
const forgetAfter = time.Minute

// Evidence remembers what a plugin has proven to be its own by its answers: schemes of provider IDs, for which it answered with
// exactly the provider ID that a node has, and single nodes. It asks nobody, lives as long as the process, and is safe for concurrent
// use. The zero value holds no evidence. All controllers of a manager share one, so that what one of them has found out all know.
type Evidence struct {
	mu      sync.RWMutex
	schemes []string
	// nodes are the nodes that were proven one by one, and when.
	nodes map[identity]time.Time
}

// Record notes that the plugin answered for a node as Decision.ProvenBy asks for, with the provider ID answered, empty if its answer held
// none. With a provider ID that has a scheme the scheme is proven; without one, only this node, and that for good: an instance that is
// gone was ours. For a node without provider ID nothing is noted, because its name proves nothing once it has one.
func (e *Evidence) Record(node *corev1.Node, answered string, now time.Time) {
	providerID := node.Spec.ProviderID
	scheme, hasScheme := Scheme(providerID)
	switch {
	case hasScheme && answered == providerID && !e.Proven(scheme):
		e.mu.Lock()
		defer e.mu.Unlock()
		if !slices.Contains(e.schemes, scheme) {
			e.schemes = append(e.schemes, scheme)
		}
	case !hasScheme && providerID != "" && !e.ProvenNode(node):
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.nodes == nil {
			e.nodes = map[identity]time.Time{}
		}
		e.nodes[identityOf(node)] = now
	}
}

// Proven reports whether the plugin has proven the scheme to be its own. Pass it to Rules.Decide.
func (e *Evidence) Proven(scheme string) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Contains(e.schemes, scheme)
}

// ProvenNode reports whether the plugin has proven a node to be its own, one whose provider ID has no scheme.
func (e *Evidence) ProvenNode(node *corev1.Node) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	_, proven := e.nodes[identityOf(node)]
	return proven
}

// Forget drops the nodes that are gone. Exists says which are there.
func (e *Evidence) Forget(exists func(types.UID) bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.nodes, func(of identity, at time.Time) bool { return !exists(of.uid) && now.Sub(at) >= forgetAfter })
}
