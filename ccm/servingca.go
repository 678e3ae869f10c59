package ccm

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// heldCA is the client CA of the secure port. It stays as it was first read until release: the server begins to follow its CA before it
// has finished the configuration that it copies for each change (SecureServingInfo.Serve of k8s.io/apiserver v0.37), a data race with a CA
// that changes just then, as it does when the API server could not be read before.
type heldCA struct {
	dynamiccertificates.CAContentProvider
	runner   dynamiccertificates.ControllerRunner
	first    func() []byte
	released atomic.Bool

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

// holdCA puts a heldCA in the place of a CA that may change. The function it returns releases it, and is to be called once the server
// serves.
func holdCA(info *server.SecureServingInfo) (release func()) {
	runner, changes := info.ClientCA.(dynamiccertificates.ControllerRunner)
	if !changes {
		return func() {}
	}
	held := &heldCA{CAContentProvider: info.ClientCA, runner: runner, first: sync.OnceValue(info.ClientCA.CurrentCABundleContent)}
	info.ClientCA = held
	return held.release
}

// RunOnce reads the CA once.
func (h *heldCA) RunOnce(ctx context.Context) error { return h.runner.RunOnce(ctx) }

// Run follows the CA until ctx ends.
func (h *heldCA) Run(ctx context.Context, workers int) { h.runner.Run(ctx, workers) }

// AddListener has a listener told of changes, and of the release.
func (h *heldCA) AddListener(listener dynamiccertificates.Listener) {
	h.CAContentProvider.AddListener(listener)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = append(h.listeners, listener)
}

// CurrentCABundleContent returns what was read first, and from the release on what there is.
func (h *heldCA) CurrentCABundleContent() []byte {
	if !h.released.Load() {
		return h.first()
	}
	return h.CAContentProvider.CurrentCABundleContent()
}

// release lets changes through, and says that there may have been one.
func (h *heldCA) release() {
	h.released.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, listener := range h.listeners {
		listener.Enqueue()
	}
}
