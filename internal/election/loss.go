package election

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLost says that this replica must not act as the leader: it has not renewed the lease in time, or another process holds it.
var ErrLost = errors.New("the lease is lost")

// errRenounced is why a replica does not act that has given up leading although it could not release the lease.
var errRenounced = fmt.Errorf("%w: this replica no longer leads", ErrLost)

// instant is a point in time by the two clocks of a process. The monotonic one is never set, and goes on while the process is
// stopped by a signal, but Linux stops it while the machine is suspended. The wall clock shows that time, once it is set right.
type instant struct{ monotonic, wall time.Time }

func now() instant {
	read := time.Now()
	return instant{monotonic: read, wall: read.Round(0)}
}

// age returns how long ago i was, by the clock that says more.
func (i instant) age(now instant) time.Duration {
	return max(now.monotonic.Sub(i.monotonic), now.wall.Sub(i.wall))
}

// limit is how long after its last renewal this replica may act as the leader. It is less than LeaseDuration, so what is
// under way has time to end before another replica takes the lease. The elector's own requests end then, too.
func (l *Lock) limit() time.Duration {
	return max(l.options.RenewDeadline, l.options.LeaseDuration-l.options.RetryPeriod)
}

// Lost returns an ErrLost if this replica must not act as the leader, and nil if it may. It is cheap and makes no request: it is meant to
// be called right before each call that changes something.
//
// Other replicas count the lease's duration from when they see a renewal, this one from before it sent it, so it is the first
// to take the lease for expired. A lease that is lost by the monotonic clock, or that another process holds, stays lost. One that
// is overdue by the wall clock only is lost until the next renewal succeeds, for which no other process may have taken it: the clock
// may just have been set.
//
// A replica that has never led, or that has released the lease, gets nil: what it may do is for others to say.
func (l *Lock) Lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lostAt(now())
}

func (l *Lock) lostAt(now instant) error {
	if err := l.endedAt(now); err != nil || l.acquired.IsZero() || l.released {
		return err
	}
	if age := l.renewed.age(now); age >= l.limit() {
		return overdue(age)
	}
	return nil
}

// endedAt returns why this replica can no longer lead, not even by a renewal.
func (l *Lock) endedAt(now instant) error {
	if l.lost != nil || l.acquired.IsZero() || l.released {
		return l.lost
	}
	if age := now.monotonic.Sub(l.renewed.monotonic); age >= l.limit() {
		l.lose(overdue(age))
	}
	return l.lost
}

// ended is endedAt the present, under the mutex.
func (l *Lock) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endedAt(now())
}

func overdue(age time.Duration) error {
	return fmt.Errorf("%w: it was last renewed %s ago", ErrLost, age.Round(time.Millisecond))
}

// lose ends this replica's leadership for good.
func (l *Lock) lose(reason error) {
	if l.lost != nil {
		return
	}
	l.lost = reason
	l.expiring.Stop()
	if l.options.OnLost != nil {
		go l.options.OnLost(reason)
	}
}

// observe loses the lease if a read shows that another process holds it. A lease without a holder may still be taken again.
func (l *Lock) observe(record *resourcelock.LeaderElectionRecord) {
	if record.HolderIdentity == "" || record.HolderIdentity == l.Identity() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose(fmt.Errorf("%w: %s holds it", ErrLost, record.HolderIdentity))
}

// won notes a renewal that was sent at sent, or the first hold of the lease.
func (l *Lock) won(acquired time.Time, sent instant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := now()
	if err := l.endedAt(now); err != nil {
		return err // the lease was lost while the write was under way
	}
	if age := sent.age(now); age >= l.limit() && l.acquired.IsZero() {
		return overdue(age) // it was won too long ago to begin with; the elector tries again
	}
	l.acquired, l.renewed = acquired, sent
	remaining := l.limit() - now.monotonic.Sub(sent.monotonic)
	if l.expiring == nil {
		l.expiring = time.AfterFunc(remaining, func() { _ = l.ended() })
	} else {
		l.expiring.Reset(remaining)
	}
	return nil
}

// Expiry returns when this replica must have ended what it did as the leader, and when another one may take the lease, by the
// monotonic clock. Both are zero before it has led.
func (l *Lock) Expiry() (overdue, expired time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acquired.IsZero() {
		return time.Time{}, time.Time{}
	}
	return l.renewed.monotonic.Add(l.limit()), l.renewed.monotonic.Add(l.options.LeaseDuration)
}
