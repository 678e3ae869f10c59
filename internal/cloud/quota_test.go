package cloud

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
			node := nodeNamed(fmt.Sprint("node-", nodes.Add(1)))
			instances, _ := cloud.InstancesV2()
			for pause := 5 * time.Millisecond; ; pause *= 2 { // as the controller does
				_, err := instances.InstanceMetadata(t.Context(), node)
				if err == nil {
					return
				}
				wait, _ := provider.RetryAfter(err)
				time.Sleep(max(pause, wait))
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
// the cloud asks for, and what the calls would take without any quota. All calls that may be made at once may be refused at first.
func TestQuotaIsFoundWithFewRefusals(t *testing.T) {
	const calls, mostRefused = 600, 64 + 25
	for _, refill := range []float64{5, 10, 20, 50, 100, 200} {
		for _, burst := range []int{1, 5, 20, 100} {
			for _, latency := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
				for name, retryAfter := range retryAfters {
					t.Run(fmt.Sprintf("%v a second, burst %d, latency %s, %s", refill, burst, latency, name), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							limited := &limited{latency: latency, bucket: rate.NewLimiter(rate.Limit(refill), burst), retryAfter: retryAfter}
							took := together(t, Decorate(&plugin{metadata: limited.call}, many(Options{})), calls)
							floor := max(time.Duration((calls-float64(burst))/refill*float64(time.Second)), calls/64*latency+3*latency)
							if most := floor*6/5 + 10*latency + limited.waits + 200*time.Millisecond; took > most {
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
		if took := together(t, Decorate(&plugin{metadata: limited.call}, many(Options{})), 1000); took > 1300*time.Millisecond {
			t.Errorf("1,000 calls of 50 ms took %s without a quota, want 1.3 s at the most", took)
		}
	})
}
