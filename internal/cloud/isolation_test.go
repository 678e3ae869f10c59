package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/provider"
)

// TestPanicsAreErrors: of every call, and no other call notices.
func TestPanicsAreErrors(t *testing.T) {
	inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
		watch := func(ctx context.Context, _ string) error {
			return provider.CapabilitiesOf(m.cloud).WatchInstances(ctx, func(provider.InstanceEvent) error { return nil })
		}
		for name, call := range map[string]func(context.Context, string) error{
			"bad": m.ensure, "node": m.node, "ListInstances": m.list, "ListLoadBalancers": m.listBalancers, "WatchInstances": watch, "10.0.0.0/24": m.route,
		} {
			m.set(panics, name)
			for range 100 { // more than there are places
				var panicked *guard.PanicError
				if err := call(t.Context(), name); !errors.As(err, &panicked) || !strings.Contains(string(panicked.Stack), "panics") ||
					strings.Contains(err.Error(), "\n") {
					t.Fatalf("%s: error %v, want a PanicError of one line with the stack", name, err)
				}
			}
			m.set(exits, name)
			if err := call(t.Context(), name); !errors.Is(err, guard.ErrExited) {
				t.Errorf("%s: error %v of a plugin that ends its goroutine", name, err)
			}
			if took := m.join(t, 1); took > 2*usual {
				t.Errorf("a new node took %s after panics of %s", took, name)
			}
		}
		metrics := m.cloud.(*decorated).calls.metrics
		if got := testutil.ToFloat64(metrics.panics.WithLabelValues("EnsureLoadBalancer")); got != 100 {
			t.Errorf("%v panics of EnsureLoadBalancer are counted, want 100", got)
		}
		if got := testutil.ToFloat64(metrics.queue.InFlight.WithLabelValues(admission.GroupLoadBalancers)); got != 0 {
			t.Errorf("%v calls of load balancers are under way, want none", got)
		}
	})
}

// TestCallsThatHang hold up only their own objects, whatever their group, and for as long as they like.
func TestCallsThatHang(t *testing.T) {
	for name, kind := range map[string]struct {
		call    func(m *misbehaving) func(context.Context, string) error
		objects []string
	}{
		"reads":            {func(m *misbehaving) func(context.Context, string) error { return m.node }, numbered("node", 7)},
		"writes":           {func(m *misbehaving) func(context.Context, string) error { return m.ensure }, numbered("service", 7)},
		"writes of routes": {func(m *misbehaving) func(context.Context, string) error { return m.route }, numbered("route", 7)},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
				m.set(m.hangs, kind.objects...)
				m.manyRetry(kind.call(m), admission.PriorityNewNode, kind.objects...)
				for _, after := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
					time.Sleep(after)
					began := time.Now()
					for _, call := range []func(context.Context, string) error{m.node, m.exists, m.ensure, m.get, m.route} {
						if err := call(admission.WithPriority(t.Context(), admission.PriorityRefresh), "well"); err != nil {
							t.Errorf("another object after %s: %v", after, err)
						}
					}
					if took := time.Since(began); took > 10*usual {
						t.Errorf("five calls for others took %s after %s, want twice their usual time at the most", took, after)
					}
				}
				if err := Overdue(m.cloud); err != nil {
					t.Errorf("seven objects alone reach the bound: %v", err)
				}
			})
		})
	}
}

// TestPlainErrorsOfAFewNodes: a plugin that returns one for a server that is gone, as several do, closes nothing for others.
func TestPlainErrorsOfAFewNodes(t *testing.T) {
	inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
		gone := numbered("gone", 5)
		for _, name := range append(gone, "healthy") {
			if err := m.exists(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		m.set(fails(errors.New("server not found in region")), gone...)
		m.manyRetry(m.exists, admission.PriorityDeletion, gone...)
		for range 48 {
			time.Sleep(7 * time.Minute) // no other call is made meanwhile
			if took := m.join(t, 1); took > 2*usual {
				t.Fatalf("a new node took %s", took)
			}
			if err := m.node(admission.WithPriority(t.Context(), admission.PriorityRefresh), "healthy"); err != nil {
				t.Fatalf("a refresh: %v", err)
			}
		}
	})
}

// TestErrorsOfUsers are none of the cloud's, although the Services worked before.
func TestErrorsOfUsers(t *testing.T) {
	inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
		services := numbered("service", 5)
		for _, name := range services {
			if err := m.ensure(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		m.set(fails(errors.New("invalid annotation: subnet not found")), services...)
		m.manyRetry(m.ensure, admission.PriorityUpdate, services...)
		for range 20 {
			time.Sleep(3 * time.Minute)
			began := time.Now()
			if err := m.ensure(admission.WithPriority(t.Context(), admission.PriorityRefresh), "other"); err != nil || time.Since(began) > 2*usual {
				t.Fatalf("a good Service: %v after %s", err, time.Since(began))
			}
		}
	})
}

// TestThrottledServices slow neither nodes nor, when it is their own matter, other Services.
func TestThrottledServices(t *testing.T) {
	const nodes = 300
	usually := undisturbed(t, nodes)
	for name, refusal := range map[string]error{
		"a typed error":  &provider.ThrottledError{RetryAfter: 10 * time.Minute, Err: errors.New("over quota")},
		"without a time": errors.New("ThrottlingException: Rate exceeded"),
		"a long time in the text": errors.New(`Retriable: true, RetryAfter: 600s, HTTPStatusCode: 429, RawError: azure cloud provider ` +
			`throttled for operation LBPut with reason "client throttled"`),
	} {
		for _, services := range []int{1, 5, 20} {
			t.Run(fmt.Sprintf("%s, %d Services", name, services), func(t *testing.T) {
				inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
					bad := numbered("service", services)
					m.set(fails(refusal), bad...)
					m.manyRetry(m.ensure, admission.PriorityNewObject, bad...)
					for _, after := range []time.Duration{time.Second, 10 * time.Minute, time.Hour} {
						time.Sleep(after)
						if took := m.join(t, nodes); float64(took) > 1.2*float64(usually) {
							t.Errorf("after %s, %d nodes joined in %s, undisturbed in %s", after, nodes, took, usually)
						}
						if after == time.Second {
							continue // each may still be the first that a quota refuses, and holds its own group
						}
						began := time.Now()
						if err := m.ensure(admission.WithPriority(t.Context(), admission.PriorityNewObject), "healthy"); err != nil || time.Since(began) > 2*usual+admission.MaxGroupPause+time.Second {
							t.Errorf("after %s, a healthy Service: %v after %s", after, err, time.Since(began))
						}
					}
				})
			})
		}
	}
}

// TestOneNodeThatIsAlwaysRefused leaves the rate as it is.
func TestOneNodeThatIsAlwaysRefused(t *testing.T) {
	const nodes = 300
	usually := undisturbed(t, nodes)
	for name, refusal := range map[string]error{
		"without a time": errors.New("throttled by the hypervisor of this host"),
		"for an hour":    &provider.ThrottledError{RetryAfter: time.Hour, Err: errors.New("over quota")},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
				m.set(fails(refusal), "bad")
				m.manyRetry(m.node, admission.PriorityNewNode, "bad")
				time.Sleep(time.Minute)
				if took := m.join(t, nodes); took > 2*usually+2*time.Second {
					t.Errorf("%d nodes joined in %s a minute later, undisturbed in %s", nodes, took, usually)
				}
				time.Sleep(time.Hour)
				if took := m.join(t, nodes); float64(took) > 1.2*float64(usually) {
					t.Errorf("%d nodes joined in %s an hour later, undisturbed in %s", nodes, took, usually)
				}
			})
		})
	}
}

// TestSlowWrites of routes hold up neither a node nor other routes.
func TestSlowWrites(t *testing.T) {
	inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
		routes := numbered("route", 8)
		m.set(slow(9*time.Minute, nil), routes...)
		m.manyRetry(m.route, admission.PriorityNewObject, routes...)
		time.Sleep(usual)
		if took := m.join(t, 1); took > 2*usual {
			t.Errorf("a new node took %s behind eight slow writes of routes", took)
		}
		time.Sleep(2 * time.Second)
		began := time.Now()
		if err := m.route(t.Context(), "other"); err != nil || time.Since(began) > 2*usual {
			t.Errorf("another route: %v after %s", err, time.Since(began))
		}
	})
}

// TestAFenceIsAskedBeforeEachCall, also of a call that waits while it closes.
func TestAFenceIsAskedBeforeEachCall(t *testing.T) {
	errFenced := errors.New("another leads")
	var closed atomic.Pointer[error]
	closed.Store(new(error))
	inVirtualTime(t, Options{MaxInFlight: 1, Fence: func() error { return *closed.Load() }}, func(t *testing.T, m *misbehaving) {
		m.set(slow(10*time.Second, nil), "slow")
		go func() { _ = m.node(t.Context(), "slow") }()
		time.Sleep(time.Second)
		time.AfterFunc(time.Second, func() { closed.Store(&errFenced) })
		if err := m.ensure(t.Context(), "a"); !errors.Is(err, errFenced) || m.called("a") != 0 {
			t.Errorf("a call that waited: %v, made %d times", err, m.called("a"))
		}
		if err := m.node(t.Context(), "b"); !errors.Is(err, errFenced) || m.called("b") != 0 {
			t.Errorf("a call: %v, made %d times", err, m.called("b"))
		}
		closed.Store(new(error))
		if err := m.node(t.Context(), "b"); err != nil {
			t.Errorf("a call when the fence is open: %v", err)
		}
	})
}
