package managers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/internal/sleep"
)

// A kubelet starts a container again at once after its first end, then after pauses that double, and forgets them after a long life.
// See pkg/kubelet in Kubernetes: MaxContainerBackOff, containerBackoffInitial, and the sync of a Pod, which takes about a second.
const (
	kubeletSync    = time.Second
	firstBackoff   = 10 * time.Second
	longestBackoff = 5 * time.Minute
	longLife       = 2 * longestBackoff
)

// Replica is a Pod of a manager: its kubelet starts the process again when it has ended. Its methods may be called from several goroutines.
type Replica struct {
	manager  *Manager
	settings Settings
	running  sync.WaitGroup
	cancel   context.CancelFunc

	mu           sync.Mutex
	incarnations []*Incarnation
	failure      error
}

// Run starts a replica, which goes on until Stop.
func Run(ctx context.Context, manager *Manager, settings Settings) *Replica {
	r := &Replica{manager: manager, settings: settings}
	ctx, r.cancel = context.WithCancel(ctx)
	r.running.Go(func() { r.run(ctx) })
	return r
}

// run starts one process after the other.
func (r *Replica) run(ctx context.Context) {
	ends := 0
	for {
		began := time.Now()
		process, err := r.start(ctx)
		if err != nil {
			return
		}
		select {
		case <-process.Ended():
		case <-ctx.Done():
			return
		}
		if time.Since(began) > longLife {
			ends = 0
		}
		ends++
		if !sleep.For(ctx, Pause(ends)) {
			return
		}
	}
}

// Pause is how long a kubelet waits before it starts a process again that has ended so often, without a long life between.
func Pause(ends int) time.Duration {
	pause := kubeletSync
	for range ends - 1 {
		pause = min(max(firstBackoff, 2*pause), longestBackoff)
	}
	return pause
}

// start starts a process and keeps it.
func (r *Replica) start(ctx context.Context) (*Incarnation, error) {
	process, err := Start(context.WithoutCancel(ctx), r.manager, r.settings)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failure = fmt.Errorf("starting %s: %w", r.manager.Name, err)
		return nil, err
	}
	r.incarnations = append(r.incarnations, process)
	return process, nil
}

// Incarnations returns the processes so far, the newest last.
func (r *Replica) Incarnations() []*Incarnation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Incarnation(nil), r.incarnations...)
}

// Retire ends the replica as the deletion of its Pod does. Its last process goes on until it has ended in order, and Stop has to be called later.
func (r *Replica) Retire() {
	r.cancel()
	if processes := r.Incarnations(); len(processes) > 0 {
		processes[len(processes)-1].Terminate()
	}
}

// Stop ends the replica as the deletion of its Pod does, and releases all of its processes. It takes the grace period in virtual time at most,
// and then until their goroutines have wound down.
func (r *Replica) Stop(grace time.Duration) error {
	r.cancel()
	r.running.Wait()
	processes := r.Incarnations()
	if len(processes) > 0 {
		last := processes[len(processes)-1]
		last.Terminate()
		select {
		case <-last.Ended():
		case <-time.After(grace):
		}
	}
	release(processes...)
	return r.failure
}
