package cloud

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// limited is a cloud with a quota: a token bucket, whose refusals are quick.
type limited struct {
	latency    time.Duration
	bucket     *rate.Limiter
	retryAfter func(missing time.Duration) time.Duration

	mu      sync.Mutex
	refused int
	until   time.Time
	waits   time.Duration // that the cloud has asked for
}

func (l *limited) call(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	missing := l.take()
	if missing == 0 {
		time.Sleep(l.latency)
		return &cloudprovider.InstanceMetadata{}, nil
	}
	time.Sleep(min(l.latency, 4*time.Millisecond))
	return nil, &provider.ThrottledError{RetryAfter: l.retryAfter(missing), Err: errors.New("over quota")}
}

// take takes a token, or returns how long it takes until there is one.
func (l *limited) take() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.bucket.AllowN(now, 1) {
		return 0
	}
	l.refused++
	missing := time.Duration((1-l.bucket.TokensAt(now))/float64(l.bucket.Limit())*float64(time.Second)) + 1
	if until := now.Add(l.retryAfter(missing)); until.After(l.until) {
		l.waits += min(until.Sub(l.until), until.Sub(now))
		l.until = until
	}
	return missing
}

// together makes calls of as many goroutines at once, and returns how long they took.
func together(t *testing.T, cloud cloudprovider.Interface, calls int) time.Duration {
	t.Helper()
	var all sync.WaitGroup
	start := time.Now()
	for range calls {
		all.Go(func() {
			if _, err := metadataOf(t, cloud, t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

var retryAfters = map[string]func(missing time.Duration) time.Duration{
	"no Retry-After":         func(time.Duration) time.Duration { return 0 },
	"Retry-After of 1 s":     func(time.Duration) time.Duration { return time.Second },
	"fractional Retry-After": func(missing time.Duration) time.Duration { return missing },
}

// TestQuotaIsFoundWithFewRefusals holds the client to the floor that a quota sets: 600 calls take as long as the bucket takes to
// fill for them, and a fifth more. What is added is what no client could save: the round trips in which it learns, the waits that
// the cloud asks for, and what the calls would take without any quota.
func TestQuotaIsFoundWithFewRefusals(t *testing.T) {
	const calls, mostRefused = 600, 9
	for _, refill := range []float64{5, 10, 20, 50, 100, 200} {
		for _, burst := range []int{1, 5, 20, 100} {
			for _, latency := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
				for name, retryAfter := range retryAfters {
					t.Run(fmt.Sprintf("%v a second, burst %d, latency %s, %s", refill, burst, latency, name), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							limited := &limited{latency: latency, bucket: rate.NewLimiter(rate.Limit(refill), burst), retryAfter: retryAfter}
							took := together(t, Decorate(&plugin{metadata: limited.call}, Options{}), calls)
							floor := max(time.Duration((calls-float64(burst))/refill*float64(time.Second)), calls/64*latency+3*latency)
							if most := floor*6/5 + 10*latency + limited.waits; took > most {
								t.Errorf("took %s, want %s at the most; the floor is %s, %d refused", took, most, floor, limited.refused)
							}
							if limited.refused > mostRefused {
								t.Errorf("%d calls were refused, want %d at the most; took %s, floor %s", limited.refused, mostRefused, took, floor)
							}
						})
					})
				}
			}
		}
	}
}

func TestNoQuotaNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &limited{latency: 50 * time.Millisecond, bucket: rate.NewLimiter(rate.Inf, 1)}
		if took := together(t, Decorate(&plugin{metadata: limited.call}, Options{}), 1000); took > 1300*time.Millisecond {
			t.Errorf("1,000 calls of 50 ms took %s without a quota, want 1.3 s at the most", took)
		}
	})
}

// TestOneQuotaForSeveralGroups: it is learned as such only when several are refused, and then their calls share it by priority.
func TestOneQuotaForSeveralGroups(t *testing.T) {
	const nodes, services = 300, 100
	for _, refill := range []float64{10, 50} {
		t.Run(fmt.Sprint(refill), func(t *testing.T) {
			inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
				bucket := &limited{latency: usual, bucket: rate.NewLimiter(rate.Limit(refill), 5), retryAfter: func(time.Duration) time.Duration { return 0 }}
				draw := func(ctx context.Context) error { _, err := bucket.call(ctx, nil); return err }
				all := append(numbered("service", services), numbered("node", nodes)...)
				m.set(draw, all...)
				var done sync.WaitGroup
				var joined atomic.Int64
				began := time.Now()
				for _, name := range all[:services] {
					done.Go(func() {
						for m.ensure(WithPriority(t.Context(), PriorityUpdate), name) != nil {
							time.Sleep(5 * time.Second)
						}
					})
				}
				for _, name := range all[services:] {
					done.Go(func() {
						for m.node(WithPriority(t.Context(), PriorityNewNode), name) != nil {
							time.Sleep(5 * time.Second)
						}
						joined.Store(int64(time.Since(began))) // the last is the latest
					})
				}
				done.Wait()
				took, floor := time.Since(began), time.Duration((nodes+services)/refill*float64(time.Second))
				if took > floor*13/10+5*time.Second || bucket.refused > 40 {
					t.Errorf("all took %s with %d refusals, want a third more than %s and 40 at the most", took, bucket.refused, floor)
				}
				if most := time.Duration(nodes / refill * float64(time.Second) * 1.5); time.Duration(joined.Load()) > most {
					t.Errorf("the nodes took %s of %s, want them to go before the Services: %s", time.Duration(joined.Load()), took, most)
				}
				q := m.cloud.(*decorated).calls.queue
				if q.of(GroupInstances).quota != q.of(GroupLoadBalancers).quota || q.of(GroupInstances).quota == q.of(GroupRoutes).quota {
					t.Error("the quota is not shared by the groups that were refused, and only by these")
				}
				time.Sleep(2 * forget)
				_, _ = m.node(t.Context(), "later"), m.ensure(t.Context(), "later")
				if q.of(GroupInstances).quota == q.of(GroupLoadBalancers).quota {
					t.Error("the quota is still shared when it has not been in demand for long")
				}
			})
		})
	}
}
