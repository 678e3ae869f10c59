package ccm

import (
	"context"
	"sync"
)

// admission is the start barrier of whatever acts as the leader: it admits no caller before it is opened, and no new one once it drains.
type admission struct {
	opened chan struct{}

	mu       sync.Mutex
	draining bool
	acting   sync.WaitGroup
}

func newAdmission() *admission { return &admission{opened: make(chan struct{})} }

// open lets everybody begin who waits.
func (a *admission) open() { close(a.opened) }

// begin waits until the caller may act. It returns false if it no longer may; otherwise the caller calls done when it has
// stopped.
func (a *admission) begin(ctx context.Context) (done func(), ok bool) {
	select {
	case <-a.opened:
	case <-ctx.Done():
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return nil, false
	}
	a.acting.Add(1)
	return a.acting.Done, true
}

// drain lets no caller begin, and waits until all have stopped.
func (a *admission) drain() {
	a.mu.Lock()
	a.draining = true
	a.mu.Unlock()
	a.acting.Wait()
}
