package election

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/mooring-ccm/mooring/internal/version"
)

// Options describe the lease and who competes for it.
type Options struct {
	// Namespace and Name identify the Lease.
	Namespace, Name string
	// Identity distinguishes this replica from all others, also from an earlier process on the same host.
	Identity string
	// LeaseDuration, RenewDeadline and RetryPeriod are the elector's own.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Recorder writes the elector's events on the Lease. Nil writes none.
	Recorder resourcelock.EventRecorder
	// BeforeRelease is asked before the lease is given up. An error keeps the lease, which then expires by itself: a replica
	// whose work has not ended must not let another begin. Nil never objects.
	BeforeRelease func() error
	// Pod is where this replica runs, so another one sees there when it has crashed, and whose namespace this one looks into itself.
	// Nil: nothing is said, and no Pod is looked at.
	Pod *Pod
	// ServingKey returns the ServingKey of the certificate of this replica's secure port, which the Lease then says beside Pod. Nil or empty:
	// it says none.
	ServingKey func() string
	// OnLost is called once, in a goroutine of its own, when this replica must no longer act as the leader: its lease has become
	// overdue, or was seen in the hands of another process. It is not called after Renounce. Nil is not called.
	OnLost func(reason error)
}

// Lock is a resourcelock.Interface whose Get blocks while another replica leads. It serves one elector; Check, Lost and Expiry may
// be called from other goroutines.
//
// See ADR 3.
type Lock struct {
	*resourcelock.LeaseLock
	options Options
	// watcher reads the Lease without the short timeout of the client that writes it, which would cut every watch.
	watcher coordinationv1client.LeaseInterface
	// seen and unwatchable are used by the elector's goroutine only; unwatchable is why the lease could not be watched.
	seen        observation
	unwatchable string
	// pods are the Pods of all replicas, nil if none is looked at. The elector's goroutine follows the holder's Pod by them; read is the
	// annotation of the lease that was last read.
	pods      kubernetes.Interface
	following *follower
	read      string
	// introduced says that known is whether this replica says its Pod on the lease that it holds.
	introduced sync.Once
	known      bool

	mu sync.Mutex
	// inherited is until when the lease of the last holder would have lasted, if this replica takes it because the holder's container has
	// terminated. Zero: it was free.
	inherited time.Time
	// acquired is when this replica won the lease, zero before. It is not reset: a replica that loses the lease ends.
	acquired time.Time
	// renewed is when the last write was sent that the API server took of this replica as the holder.
	renewed instant
	// released says that the lease was given up.
	released bool
	// lost is why this replica can no longer lead, nil while it can.
	lost error
	// expiring runs from the first hold of the lease, and loses it when it is overdue.
	expiring *time.Timer
}

var _ resourcelock.Interface = &Lock{}

// New returns a lock on the Lease, with clients of its own: what else the process asks of the API server must not delay a
// renewal. A request of the elector is given up after half the renew deadline, as in client-go, so one that hangs leaves
// time for a second.
func New(config *rest.Config, options Options) (*Lock, error) {
	watching := version.AddUserAgent(rest.CopyConfig(config), "leader-election")
	writing := rest.CopyConfig(watching)
	writing.Timeout = max(options.RenewDeadline/2, time.Second)
	writer, err := coordinationv1client.NewForConfig(writing)
	if err != nil {
		return nil, fmt.Errorf("client for the lease %s/%s: %w", options.Namespace, options.Name, err)
	}
	watcher, err := coordinationv1client.NewForConfig(watching)
	if err != nil {
		return nil, fmt.Errorf("client that watches the lease %s/%s: %w", options.Namespace, options.Name, err)
	}
	lock := newLock(writer, watcher.Leases(options.Namespace), options)
	if options.Pod != nil {
		if lock.pods, err = kubernetes.NewForConfig(watching); err != nil {
			return nil, fmt.Errorf("client that watches the Pod of the holder of the lease %s/%s: %w", options.Namespace, options.Name, err)
		}
	}
	return lock, nil
}

func newLock(writer coordinationv1client.LeasesGetter, watcher coordinationv1client.LeaseInterface, options Options) *Lock {
	lock := &Lock{options: options, watcher: watcher}
	lock.LeaseLock = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Name},
		Client:     annotatedLeases{writer, lock},
		LockConfig: resourcelock.ResourceLockConfig{Identity: options.Identity, EventRecorder: options.Recorder},
	}
	return lock
}

// Get returns the lease. Before this replica has led it returns only when the lease is free, when reading it fails, or when
// ctx ends; then it returns the lease as it is held, which shows the elector that there is nothing to take. An expired lease, and
// the record of a holder whose container has terminated, is returned without its holder, or the elector would start to observe it only
// now and wait for its duration a second time.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if bounded, cancel, held := l.whileHeld(ctx); held {
		defer cancel()
		return l.getHeld(bounded)
	}
	defer l.unfollow()
	for {
		record, raw, err := l.LeaseLock.Get(ctx)
		if err != nil {
			return nil, nil, err
		}
		now := time.Now()
		l.seen.see(record, now)
		l.follow(ctx, record)
		free := l.seen.freeFor(l.Identity(), now)
		if free || l.holderTerminated(record) {
			l.inherit(!free)
			if record.HolderIdentity != l.Identity() {
				record.HolderIdentity = ""
			}
			return record, raw, nil
		}
		if l.await(ctx); ctx.Err() != nil {
			return record, raw, nil
		}
	}
}

// inherit notes that the lease is to be taken, and whether that is before it has expired.
func (l *Lock) inherit(early bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inherited = time.Time{}
	if early {
		l.inherited = l.seen.expiry()
	}
}

// Inherited returns until when the lease of the last holder would have lasted, if this replica took it because the holder's container had
// terminated: what that one had begun elsewhere may still be under way. Zero: the lease was free, or this replica has not led.
func (l *Lock) Inherited() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inherited
}

// getHeld reads the lease that this replica has won.
func (l *Lock) getHeld(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.ended(); err != nil {
		return nil, nil, err
	}
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil {
		l.observe(record)
	}
	return record, raw, err
}

// Create creates the Lease, held by this replica.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(record, func(record resourcelock.LeaderElectionRecord) error { return l.LeaseLock.Create(ctx, record) })
}

// Update takes, renews or, with a record without a holder, releases the lease.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.ended(); err != nil {
		return err
	}
	ctx, cancel, _ := l.whileHeld(ctx)
	defer cancel()
	if record.HolderIdentity != "" {
		return l.hold(record, func(record resourcelock.LeaderElectionRecord) error { return l.LeaseLock.Update(ctx, record) })
	}
	if l.options.BeforeRelease != nil {
		if err := l.options.BeforeRelease(); err != nil {
			return fmt.Errorf("the lease %s is not released but left to expire: %w", l.Describe(), err)
		}
	}
	if err := l.LeaseLock.Update(ctx, record); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	if l.expiring != nil {
		l.expiring.Stop()
	}
	return nil
}

// hold writes the lease for this replica. The elector took the record's times before Get blocked, perhaps for days: they are
// put right, or readers of the Lease would take its new holder for dead.
func (l *Lock) hold(record resourcelock.LeaderElectionRecord, write func(resourcelock.LeaderElectionRecord) error) error {
	sent := now()
	l.mu.Lock()
	acquired := l.acquired
	l.mu.Unlock()
	if acquired.IsZero() {
		acquired = sent.monotonic
	}
	record.AcquireTime, record.RenewTime = metav1.NewTime(acquired), metav1.NewTime(sent.wall)
	if err := write(record); err != nil {
		return err
	}
	return l.won(acquired, sent)
}

// whileHeld reports whether this replica has won the lease. It then bounds ctx so nothing done with it takes until the
// lease may expire for others.
//
// The elector gives up after its renew deadline. Then, in order to release the lease, it reads it once more, with the
// controllers still running. If the API server does not answer, that read must not keep them running.
func (l *Lock) whileHeld(ctx context.Context) (bounded context.Context, cancel context.CancelFunc, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acquired.IsZero() {
		return ctx, func() {}, false
	}
	bounded, cancel = context.WithDeadlineCause(ctx, l.renewed.monotonic.Add(l.limit()), ErrLost)
	return bounded, cancel, true
}

// errRenewal is what Check finds.
var errRenewal = errors.New("the lease is held but not renewed")

// Renounce says that this replica no longer acts as the leader, although it could not release the lease.
func (l *Lock) Renounce() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	if l.lost == nil {
		l.lost = errRenounced
	}
}

// Check fails when this replica believes to lead and could not renew the lease for twice its duration. The elector should have ended the process
// by then.
func (l *Lock) Check(*http.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acquired.IsZero() || l.released {
		return nil
	}
	if age := l.renewed.age(now()); age > 2*l.options.LeaseDuration {
		return fmt.Errorf("%w: %s, last renewed %s ago", errRenewal, l.Describe(), age.Round(time.Second))
	}
	return nil
}
