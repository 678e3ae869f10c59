package cloud

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
)

// TestAsManyCallsAsFromTheReference are made at the same time, where nothing else is declared.
func TestAsManyCallsAsFromTheReference(t *testing.T) {
	joining := func(m *misbehaving) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			return m.node(admission.WithPriority(ctx, admission.PriorityNewNode), name)
		}
	}
	refreshing := func(m *misbehaving) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			return m.node(admission.WithPriority(ctx, admission.PriorityRefresh), name)
		}
	}
	exists := func(m *misbehaving) func(context.Context, string) error { return m.exists }
	ensure := func(m *misbehaving) func(context.Context, string) error { return m.ensure }
	lookUp := func(priority admission.Priority) func(m *misbehaving) func(context.Context, string) error {
		return func(m *misbehaving) func(context.Context, string) error {
			return func(ctx context.Context, name string) error {
				return m.get(admission.WithPriority(ctx, priority), name)
			}
		}
	}
	deleted, failed := lookUp(admission.PriorityDeletion), lookUp(admission.PriorityUpdate)
	update := func(m *misbehaving) func(context.Context, string) error { return m.update }
	type calls = func(m *misbehaving) func(context.Context, string) error
	for name, test := range map[string]struct {
		options Options
		calls   []calls
		want    int64
	}{
		"new nodes":                {Options{}, []calls{joining}, 1},
		"the status pass":          {Options{}, []calls{refreshing}, 1},
		"both":                     {Options{}, []calls{joining, refreshing}, 2},
		"the lifecycle":            {Options{}, []calls{exists}, 1},
		"Services":                 {Options{}, []calls{ensure, deleted}, 1},
		"targets":                  {Options{}, []calls{update, failed}, 1},
		"Services and targets":     {Options{}, []calls{ensure, update}, 2},
		"new nodes by the flag":    {Options{Concurrency: admission.Concurrency{NodeSyncs: 3}}, []calls{joining}, 3},
		"both by one flag":         {Options{Concurrency: admission.Concurrency{NodeSyncs: 3}}, []calls{joining, refreshing}, 6},
		"both by their flags":      {Options{Concurrency: admission.Concurrency{NodeSyncs: 3, NodeStatusUpdates: 2}}, []calls{joining, refreshing}, 5},
		"the lifecycle by a flag":  {Options{Concurrency: admission.Concurrency{NodeLifecycleSyncs: 4}}, []calls{exists}, 4},
		"Services by a flag":       {Options{Concurrency: admission.Concurrency{ServiceSyncs: 2}}, []calls{ensure, update}, 4},
		"declared":                 {Options{MaxInFlight: 7}, []calls{joining}, 5},
		"the flag before declared": {Options{MaxInFlight: 7, Concurrency: admission.Concurrency{NodeSyncs: 2}}, []calls{joining}, 2},
		"writes are not declared":  {Options{MaxInFlight: 7}, []calls{ensure}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMisbehaving(test.options)
				var now, most atomic.Int64
				var all sync.WaitGroup
				for i, of := range test.calls {
					for _, object := range numbered(string(rune('a'+i)), 20) {
						m.set(func(context.Context) error {
							count := now.Add(1)
							for before := most.Load(); count > before && !most.CompareAndSwap(before, count); before = most.Load() {
							}
							time.Sleep(usual)
							now.Add(-1)
							return nil
						}, object, "get "+object)
						all.Go(func() {
							if err := of(m)(t.Context(), object); err != nil {
								t.Error(err)
							}
						})
					}
				}
				all.Wait()
				if got := most.Load(); got != test.want {
					t.Errorf("%d calls at the same time, want %d", got, test.want)
				}
			})
		})
	}
}

// TestManyCallsByAFlag: the calls under way grow to what the flag says within a few answers, and all calls take hardly longer than that many at once.
func TestManyCallsByAFlag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atOnce, calls = 20, 200
		m := newMisbehaving(Options{Concurrency: admission.Concurrency{NodeSyncs: atOnce}})
		var all sync.WaitGroup
		began := time.Now()
		for _, object := range numbered("n", calls) {
			m.set(func(context.Context) error { time.Sleep(usual); return nil }, object)
			all.Go(func() {
				if err := m.node(admission.WithPriority(t.Context(), admission.PriorityNewNode), object); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took, most := time.Since(began), (calls/atOnce+2)*usual; took > most {
			t.Errorf("%d calls took %s, want at most %s", calls, took, most)
		}
	})
}

// TestCallsAboutOneServiceFollowEachOther, whatever they do.
func TestCallsAboutOneServiceFollowEachOther(t *testing.T) {
	inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
		began := time.Now()
		var all sync.WaitGroup
		for _, call := range []func(context.Context, string) error{m.ensure, m.update, m.get, m.ensure} {
			all.Go(func() {
				if err := call(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			})
		}
		if all.Wait(); time.Since(began) < 4*usual {
			t.Errorf("four calls about one Service took %s", time.Since(began))
		}
	})
}

// TestACallHasNoDeadline: a first call fills a cache for as long as it takes, whichever calls wait.
func TestACallHasNoDeadline(t *testing.T) {
	nothingDeclared(t, func(t *testing.T, m *misbehaving) {
		m.set(func(ctx context.Context) error {
			time.Sleep(90 * time.Minute)
			return ctx.Err()
		}, "cold", "service")
		began := time.Now()
		if err := m.node(t.Context(), "cold"); err != nil || time.Since(began) != 90*time.Minute {
			t.Errorf("a first read: %v after %s", err, time.Since(began))
		}
		if err := m.ensure(t.Context(), "service"); err != nil {
			t.Errorf("a first write: %v", err)
		}
	})
}

// TestAnOutstandingCall loses its place, is neither ended nor repeated, and says so to each caller that asks for its object.
func TestAnOutstandingCall(t *testing.T) {
	for name, test := range map[string]struct {
		call  func(m *misbehaving) func(context.Context, string) error
		after time.Duration
	}{
		"a read":  {func(m *misbehaving) func(context.Context, string) error { return m.node }, guard.Long},
		"a write": {func(m *misbehaving) func(context.Context, string) error { return m.ensure }, classify.MaxRetryAfter},
	} {
		t.Run(name, func(t *testing.T) {
			nothingDeclared(t, func(t *testing.T, m *misbehaving) {
				call := test.call(m)
				if err := call(t.Context(), "well"); err != nil {
					t.Fatal(err)
				}
				var ended bool
				m.set(func(ctx context.Context) error {
					time.Sleep(time.Hour)
					ended = ctx.Err() != nil
					return nil
				}, "a")
				began := time.Now()
				waiting := make(chan error, 1)
				go func() {
					time.Sleep(time.Second)
					waiting <- call(t.Context(), "a")
				}()
				other := make(chan time.Duration, 1)
				go func() {
					time.Sleep(time.Second)
					_ = call(t.Context(), "b")
					other <- time.Since(began)
				}()
				var running *guard.StillRunningError
				if err := call(t.Context(), "a"); !errors.As(err, &running) || time.Since(began) != test.after {
					t.Errorf("error %v after %s, want a StillRunningError after %s", err, time.Since(began), test.after)
				}
				if err := <-waiting; !errors.Is(err, classify.ErrStillRunning) {
					t.Errorf("who waited for it got %v", err)
				}
				if err := call(t.Context(), "a"); !errors.Is(err, classify.ErrStillRunning) {
					t.Errorf("who asks again got %v", err)
				}
				if took := <-other; took != test.after+usual {
					t.Errorf("another call waited until %s, want the place after %s", took, test.after)
				}
				if calls := m.called("a"); calls != 1 {
					t.Errorf("the plugin was called %d times for the object", calls)
				}
				gauge := m.cloud.(*decorated).calls.metrics.queue.Outstanding.WithLabelValues(admission.Operations[running.Operation].Group)
				if got := testutil.ToFloat64(gauge); got != 1 {
					t.Errorf("%v calls are shown as outstanding", got)
				}
				if reported := Unreturned(m.cloud) != nil; reported != (name == "a write") {
					t.Errorf("unreturned writes: %v", Unreturned(m.cloud))
				}
				time.Sleep(time.Hour)
				m.set(well, "a")
				if err := call(t.Context(), "a"); err != nil || ended || testutil.ToFloat64(gauge) != 0 || Unreturned(m.cloud) != nil {
					t.Errorf("after it returned: %v; its context had ended: %v", err, ended)
				}
			})
		})
	}
}

// TestAMethodThatIsSlow is given ten times the median of its calls.
func TestAMethodThatIsSlow(t *testing.T) {
	nothingDeclared(t, func(t *testing.T, m *misbehaving) {
		for _, name := range numbered("slow", 20) {
			m.set(slow(30*time.Second, nil), name)
			if err := m.node(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		m.set(slow(4*time.Minute, nil), "slower")
		if err := m.node(t.Context(), "slower"); err != nil {
			t.Errorf("a call of 4 minutes where others take 30 s: %v", err)
		}
		m.set(m.hangs, "hangs")
		began := time.Now()
		if err := m.node(t.Context(), "hangs"); !errors.Is(err, classify.ErrStillRunning) || time.Since(began) != 5*time.Minute {
			t.Errorf("a call that hangs: %v after %s, want 5 minutes", err, time.Since(began))
		}
	})
}

// TestEightCallsOfAMethod are outstanding at the most; then none is made, and who waits is told. Other methods go on.
func TestEightCallsOfAMethod(t *testing.T) {
	nothingDeclared(t, func(t *testing.T, m *misbehaving) {
		_ = m.node(t.Context(), "well")
		hang := numbered("hangs", guard.MaxOutstanding+2)
		m.set(m.hangs, hang...)
		for _, name := range hang {
			go func() { _ = m.node(m.ctx, name) }()
		}
		time.Sleep(time.Hour)
		var called int
		for _, name := range hang {
			called += m.called(name)
		}
		if called != guard.MaxOutstanding+1 {
			t.Errorf("%d calls that hang were made, want %d", called, guard.MaxOutstanding+1)
		}
		if err := Overdue(m.cloud); !errors.Is(err, guard.ErrTooManyOutstanding) || !strings.Contains(err.Error(), "InstanceMetadata") {
			t.Errorf("readiness: %v", err)
		}
		told := make(chan string, 1)
		ctx, cancel := context.WithTimeout(admission.WithPriority(t.Context(), admission.PriorityUpdate, func(reason string) { told <- reason }), time.Minute)
		defer cancel()
		if err := m.node(ctx, "well"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another call of the method: %v", err)
		}
		if reason := <-told; !strings.Contains(reason, "8 calls of InstanceMetadata have not returned") {
			t.Errorf("it was told %q", reason)
		}
		if err := errors.Join(m.exists(t.Context(), "well"), m.ensure(t.Context(), "well")); err != nil {
			t.Errorf("other methods: %v", err)
		}
	})
}

// TestCallsEndWithTheProcess, and not with the context of their callers.
func TestCallsEndWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lifetime, end := context.WithCancelCause(t.Context())
		var ended atomic.Bool
		cloud := Decorate(&plugin{metadata: func(ctx context.Context, _ *v1.Node) (*cloudprovider.InstanceMetadata, error) {
			<-ctx.Done()
			ended.Store(true)
			return nil, context.Cause(ctx)
		}}, Options{Lifetime: lifetime})
		caller, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err := metadataOf(t, cloud, caller); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller gave up and got %v", err)
		}
		if time.Sleep(time.Hour); ended.Load() {
			t.Error("the call ended with the context of its caller")
		}
		end(errors.New("the lease is lost"))
		if synctest.Wait(); !ended.Load() {
			t.Error("the call goes on after the end of the process")
		}
	})
}

// nothingDeclared runs a test with a plugin that declares nothing.
func nothingDeclared(t *testing.T, test func(t *testing.T, m *misbehaving)) {
	t.Helper()
	inVirtualTime(t, Options{Concurrency: admission.Concurrency{NodeSyncs: 1}, MaxInFlight: -1}, test)
}
