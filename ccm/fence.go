package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/internal/election"
)

// lostLease is the error of a manager whose lease was not renewed in time. controller-runtime gives it no type.
const lostLease = "leader election lost"

var (
	// errLeaseLost ends the process: another replica may lead now.
	errLeaseLost = errors.New(lostLease)
	// errMigrationLost ends the process: another controller manager may run the migrated controllers now.
	errMigrationLost = errors.New("leader election for migrated controllers lost")
)

// fence keeps this process from acting beside another leader. It is asked right before each call of the cloud and each request
// that may change something in the API server, and ends the contexts of whatever acts as the leader.
//
// It closes when one of the leases that this process holds is lost, by its age or because another process holds it: before
// client-go's elector gives up, which it does only after trying to renew the lease for its renew deadline. It never closes without
// leader election. What runs on every replica is not behind it.
//
// See ADR 54.
type fence struct {
	// leading ends, with the reason as its cause, when this process must no longer act as the leader.
	leading context.Context
	end     context.CancelCauseFunc

	mu    sync.Mutex
	locks []*election.Lock
}

func newFence() *fence {
	f := &fence{}
	f.leading, f.end = context.WithCancelCause(context.Background())
	return f
}

// add puts what acts as the leader under one more lease.
func (f *fence) add(lock *election.Lock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks = append(f.locks, lock)
}

// closed returns why this process must not act as the leader, nil if it may. It asks the clock, because a process that was stopped
// and goes on learns only a little later that a timer has run out. To the caller, the error means the same as the end of its
// context, so it is a context.Canceled.
func (f *fence) closed() error {
	reason := context.Cause(f.leading)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, lock := range f.locks {
		if reason == nil {
			reason = lock.Lost()
		}
	}
	if reason == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", context.Canceled, reason)
}

// within returns a context that ends with the leadership of this process, too.
func (f *fence) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(f.leading, func() { cancel(context.Cause(f.leading)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// expiry returns when what the leader does must have stopped, and when another replica may lead: the first moment of any lease.
// Half of the time between a lease's loss and its expiry is for the former.
func (f *fence) expiry() (stopped, expired time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, lock := range f.locks {
		overdue, expiry := lock.Expiry()
		if overdue.IsZero() || !expired.IsZero() && expired.Before(expiry) {
			continue
		}
		stopped, expired = overdue.Add(expiry.Sub(overdue)/2), expiry
	}
	return stopped, expired
}

// inherited returns until when leases would have lasted that this process took because their holders had crashed: the cloud may be at what
// they had it do. Zero: it took none.
func (f *fence) inherited() (until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, lock := range f.locks {
		if of := lock.Inherited(); of.After(until) {
			until = of
		}
	}
	return until
}

// transport refuses requests that may change something while the fence is closed. It is for rest.Config.Wrap, so it is asked
// after whatever delays a request in this process.
func (f *fence) transport(next http.RoundTripper) http.RoundTripper {
	return fenced{next: next, fence: f}
}

type fenced struct {
	next  http.RoundTripper
	fence *fence
}

// RoundTrip sends a request that reads, and any other while the fence is open.
func (r fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return r.next.RoundTrip(request)
	}
	if err := r.fence.closed(); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("not sent, because this replica no longer leads: %w", err)
	}
	return r.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the transport below.
func (r fenced) WrappedRoundTripper() http.RoundTripper { return r.next }
