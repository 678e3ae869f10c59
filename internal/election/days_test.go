package election

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
)

// daysSeed replays a schedule: go test ./internal/election -run ForDays -seed 7.
var daysSeed = flag.Uint64("seed", 1, "seed of the schedule of TestTwoLeadersNeverBothWriteForDays")

// leaseServer is an API server that knows one Lease. Unlike client-go's fake it refuses an update of an older version, on which an
// election rests.
type leaseServer struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	watches []*watch.RaceFreeFakeWatcher
}

func (s *leaseServer) store(lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	var open []*watch.RaceFreeFakeWatcher
	for _, w := range s.watches {
		if !w.IsStopped() {
			w.Modify(s.lease.DeepCopy())
			open = append(open, w)
		}
	}
	s.watches = open
	return s.lease.DeepCopy()
}

// process is one process of a replica, as far as an election goes. Its requests wait while it is paused, before they are sent and before
// their answer is read.
type process struct {
	coordinationv1client.LeaseInterface // nil: a request that is not expected here ends the test
	server                              *leaseServer
	identity                            string
	skew                                time.Duration // of its wall clock

	mu          sync.Mutex
	pausedUntil time.Time
}

func (p *process) Leases(string) coordinationv1client.LeaseInterface { return p }

// pause stops the process for a time, from now on.
func (p *process) pause(lasts time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pausedUntil = time.Now().Add(lasts)
}

// stopped waits until the process goes on.
func (p *process) stopped() {
	for {
		p.mu.Lock()
		left := time.Until(p.pausedUntil)
		p.mu.Unlock()
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

// request has the server serve a request, unless its context has ended before it could be sent.
func request[T any](ctx context.Context, p *process, serve func(*leaseServer) (T, error)) (none T, _ error) {
	p.stopped()
	if err := ctx.Err(); err != nil {
		return none, err
	}
	p.server.mu.Lock()
	answer, err := serve(p.server)
	p.server.mu.Unlock()
	p.stopped()
	return answer, err
}

func (p *process) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return request(ctx, p, func(s *leaseServer) (*coordinationv1.Lease, error) {
		if s.lease == nil {
			return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), "lease")
		}
		return s.lease.DeepCopy(), nil
	})
}

func (p *process) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return request(ctx, p, func(s *leaseServer) (*coordinationv1.Lease, error) {
		if s.lease != nil {
			return nil, apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), "lease")
		}
		return s.store(p.skewed(lease)), nil
	})
}

func (p *process) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return request(ctx, p, func(s *leaseServer) (*coordinationv1.Lease, error) {
		if lease.ResourceVersion != s.lease.ResourceVersion {
			return nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "lease", fmt.Errorf("it has changed"))
		}
		return s.store(p.skewed(lease)), nil
	})
}

// skewed returns a lease with the times that the process writes by its own clock.
func (p *process) skewed(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	for _, at := range []*metav1.MicroTime{lease.Spec.AcquireTime, lease.Spec.RenewTime} {
		if at != nil {
			at.Time = at.Add(p.skew)
		}
	}
	return lease
}

func (p *process) List(ctx context.Context, _ metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return request(ctx, p, func(s *leaseServer) (*coordinationv1.LeaseList, error) {
		return &coordinationv1.LeaseList{Items: []coordinationv1.Lease{*s.lease.DeepCopy()}}, nil
	})
}

func (p *process) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	return request(ctx, p, func(s *leaseServer) (watch.Interface, error) {
		w := watch.NewRaceFreeFake()
		context.AfterFunc(ctx, w.Stop) // as a connection ends
		s.watches = append(s.watches, w)
		return w, nil
	})
}

// timing fits a lease whose renewals are few enough for days.
var timing = Options{Namespace: "kube-system", Name: "lease", LeaseDuration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 10 * time.Second}

// tick is how often a leader writes.
const tick = time.Second

// writes are those of all leaders.
type writes struct {
	mu      sync.Mutex
	order   []string // who has written, each once in a row
	last    time.Time
	longest time.Duration // without a write
	wrong   []string
}

func (w *writes) write(by string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.last.IsZero() {
		w.longest = max(w.longest, now.Sub(w.last))
	}
	w.last = now
	if n := len(w.order); n > 0 && w.order[n-1] == by {
		return
	}
	for _, before := range w.order {
		if before == by {
			w.wrong = append(w.wrong, fmt.Sprintf("%s wrote at %s after %s had", by, now.Format(time.TimeOnly), w.order[len(w.order)-1]))
		}
	}
	w.order = append(w.order, by)
}

// life runs a process from its start to its end: it stands by, leads and writes, until it loses the lease.
func (p *process) life(ctx context.Context, written *writes) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := timing
	options.Identity = p.identity
	options.OnLost = func(error) { cancel() }
	lock := newLock(p, p, options)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: options.LeaseDuration, RenewDeadline: options.RenewDeadline, RetryPeriod: options.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				for leading.Err() == nil {
					p.stopped()
					if lock.Lost() == nil && leading.Err() == nil { // the fence, right before the write
						written.write(p.identity)
					}
					time.Sleep(tick)
				}
			},
			OnStoppedLeading: cancel,
		},
	})
	if err != nil {
		panic(err)
	}
	elector.Run(ctx)
	<-ctx.Done()
}

// Three replicas elect a leader for days. Their clocks differ by minutes. At random one of them is stopped for up to three times the lease,
// in the middle of a request or of its work, and then goes on. A former leader writes no more once another has led, and one always
// does.
func TestTwoLeadersNeverBothWriteForDays(t *testing.T) {
	t.Logf("-seed %d", *daysSeed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(*daysSeed, 0))
		ctx, cancel := context.WithTimeout(t.Context(), 2*24*time.Hour)
		defer cancel()
		server, written := &leaseServer{}, &writes{}
		var mu sync.Mutex
		current := make([]*process, 3)
		var running sync.WaitGroup
		for replica, skew := range []time.Duration{0, 7 * time.Minute, -9 * time.Minute} {
			running.Go(func() {
				for life := 0; ctx.Err() == nil; life++ {
					p := &process{server: server, identity: fmt.Sprintf("replica-%d-%d", replica, life), skew: skew}
					mu.Lock()
					current[replica] = p
					mu.Unlock()
					p.life(ctx, written)
				}
			})
		}
		for ctx.Err() == nil {
			time.Sleep(time.Duration(300+random.IntN(1200)) * time.Second)
			mu.Lock()
			current[random.IntN(len(current))].pause(time.Duration(random.IntN(180)) * time.Second)
			mu.Unlock()
		}
		running.Wait()
		written.mu.Lock()
		defer written.mu.Unlock()
		for _, wrong := range written.wrong {
			t.Error(wrong)
		}
		if changes := len(written.order); changes < 24 {
			t.Errorf("%d leaders within two days: the schedule tries nothing", changes)
		}
		// The longest way: a leader is stopped right after a write with its next renewal under way, goes on when its lease is overdue, and the
		// renewal is served all the same, but not taken by its sender. All others count the lease from there.
		limit := newLock(nil, nil, timing).limit()
		if most := limit + timing.LeaseDuration + tick; written.longest > most {
			t.Errorf("no replica wrote for %s, want at most %s", written.longest, most)
		}
		t.Logf("%d leaders, the longest time without one %s", len(written.order), written.longest)
	})
}
