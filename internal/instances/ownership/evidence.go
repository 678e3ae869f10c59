package ownership

import (
	"slices"
	"sync"
)

// Evidence remembers the provider-ID schemes that a plugin has proven to be its own: it answered for a node with exactly the
// provider ID that the node has. It lives as long as the process and is safe for concurrent use. The zero value holds no evidence.
type Evidence struct {
	mu      sync.RWMutex
	schemes []string
}

// Record notes that the plugin answered with providerID for a node that has this provider ID. An ID without a scheme proves
// nothing about other nodes and is not kept.
func (e *Evidence) Record(providerID string) {
	scheme, ok := Scheme(providerID)
	if !ok || e.Proven(scheme) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.schemes, scheme) {
		e.schemes = append(e.schemes, scheme)
	}
}

// Proven reports whether the plugin has proven the scheme to be its own. Pass it to Rules.Judge.
func (e *Evidence) Proven(scheme string) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Contains(e.schemes, scheme)
}
