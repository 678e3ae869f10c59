package instances

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Denies reports whether the newest answer about a node's instance, if it is no older than maxAge, says that there is none. It asks nobody.
func (o *Owners) Denies(node *corev1.Node, maxAge time.Duration) bool {
	return o.inventory.denies(node, time.Now().Add(-maxAge))
}

func (i *Inventory) denies(node *corev1.Node, notBefore time.Time) bool {
	alone, ok := i.source.(*perNode)
	if !ok {
		listed, ok := i.source.peek(node, notBefore)
		return ok && listed.Status == NotFound
	}
	alone.mu.Lock()
	known, ok := alone.nodes[keyOf(node)]
	alone.mu.Unlock()
	if !ok {
		return false
	}
	newest, _ := known.metadata.newest()
	if exists, ok := known.existence.newest(); ok && exists.at.After(newest.at) {
		newest = exists
	}
	return newest.value.Status == NotFound && !newest.at.Before(notBefore)
}
