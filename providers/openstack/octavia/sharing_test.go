package octavia

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// numberedList is a list whose calls take so long, and find which call of the list it was.
func numberedList(takes time.Duration) (list *shared[int], calls func() int) {
	var lock sync.Mutex
	made := 0
	list = newShared(func(ctx context.Context) ([]int, error) {
		lock.Lock()
		made++
		number := made
		lock.Unlock()
		select {
		case <-time.After(takes):
			return []int{number}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return list, func() int {
		lock.Lock()
		defer lock.Unlock()
		return made
	}
}

// TestSharedLists has callers come before, during and after calls of a list. No caller is given a list that began too early for it.
func TestSharedLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, calls := numberedList(time.Second)
		begin := time.Now()
		var done sync.WaitGroup
		for name, test := range map[string]struct {
			after, age time.Duration
			want       int // the number of the call
		}{
			"first":                         {0, 0, 1},
			"during, and the first does":    {500 * time.Millisecond, 500 * time.Millisecond, 1},
			"during, and the first is late": {500 * time.Millisecond, 0, 2},
			"later, and the first is late":  {900 * time.Millisecond, 100 * time.Millisecond, 2},
			"during the second":             {1500 * time.Millisecond, 500 * time.Millisecond, 2},
			"the second is over":            {2500 * time.Millisecond, 2 * time.Second, 2},
			"the second is too old":         {4 * time.Second, time.Second, 3},
		} {
			done.Go(func() {
				time.Sleep(test.after)
				notBefore := time.Now().Add(-test.age)
				found, began, ok := list.get(t.Context(), notBefore)
				if !ok || len(found) != 1 || found[0] != test.want || began.Before(notBefore) {
					t.Errorf("%s: found %v, which began %s, ok %v, want call %d", name, found, began.Sub(begin), ok, test.want)
				}
			})
		}
		done.Wait()
		if calls() != 3 {
			t.Errorf("%d calls, want 3", calls())
		}
	})
}

// TestCallersLeave looks that a caller who goes takes nothing from the others.
func TestCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, calls := numberedList(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		notBefore := time.Now()
		var done sync.WaitGroup
		done.Go(func() {
			if _, _, ok := list.get(ctx, notBefore); ok {
				t.Error("who went away was served")
			}
		})
		synctest.Wait()
		cancel()
		if found, _, ok := list.get(t.Context(), notBefore); !ok || found[0] != 1 || calls() != 1 {
			t.Errorf("found %v, ok %v, with %d calls", found, ok, calls())
		}
		done.Wait()
	})
}

// TestListsThatHangFailOrPanic checks that no caller waits for long, nor for the same fault twice, and that lists are shared again later.
func TestListsThatHangFailOrPanic(t *testing.T) {
	for name, test := range map[string]struct {
		list   func(context.Context) ([]int, error)
		waits  time.Duration // the first caller
		paused time.Duration
	}{
		"hangs":         {func(ctx context.Context) ([]int, error) { <-ctx.Done(); return nil, ctx.Err() }, listPatience, listTimeout + pauseAfterFailure},
		"fails":         {func(context.Context) ([]int, error) { return nil, errors.New("broken") }, 0, pauseAfterFailure},
		"is too long":   {func(context.Context) ([]int, error) { return nil, errLong }, 0, pauseAfterSize},
		"panics":        {func(context.Context) ([]int, error) { panic("unexpected") }, 0, pauseAfterFailure},
		"ends too late": {func(context.Context) ([]int, error) { time.Sleep(listPatience + time.Second); return nil, nil }, listPatience, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var works atomic.Bool
				list := newShared(func(ctx context.Context) ([]int, error) {
					if works.Load() {
						return []int{1}, nil
					}
					return test.list(ctx)
				})
				ask := func() (time.Duration, bool) {
					began := time.Now()
					_, _, ok := list.get(t.Context(), began)
					return time.Since(began), ok
				}
				begin := time.Now()
				if waited, ok := ask(); ok || waited != test.waits {
					t.Errorf("the first waited %s, ok %v, want %s", waited, ok, test.waits)
				}
				time.Sleep(time.Millisecond)
				if waited, ok := ask(); ok || waited != 0 {
					t.Errorf("the second waited %s, ok %v", waited, ok)
				}
				time.Sleep(time.Until(begin.Add(max(test.paused, 2*listPatience) + time.Second)))
				works.Store(true)
				if _, ok := ask(); !ok {
					t.Error("the list works again, and is not shared")
				}
			})
		})
	}
}

// TestWaitersOfAListThatFails checks that callers which wait for the next call stop waiting when the current one fails.
func TestWaitersOfAListThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := newShared(func(context.Context) ([]int, error) { time.Sleep(time.Second); return nil, errors.New("broken") })
		var done sync.WaitGroup
		for range 3 {
			done.Go(func() {
				began := time.Now()
				if _, _, ok := list.get(t.Context(), began); ok || time.Since(began) > time.Second {
					t.Errorf("waited %s, ok %v", time.Since(began), ok)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		done.Wait()
	})
}

// TestManyLoadBalancersOfACluster checks that a list which is too long serves no caller, since it is incomplete.
func TestManyLoadBalancersOfACluster(t *testing.T) {
	f := newFixture(t, 0, annotations.Options{SubnetID: "nodes"})
	for i := range mostShared {
		f.cloud.Put(octaviatest.LoadBalancers, octaviatest.Object{"name": fmt.Sprint(i), "provisioning_status": "ACTIVE",
			"tags": []string{model.ClusterTag(cluster)}})
	}
	f.ensure(web(), nodes(1))
	f.cloud.Calls()
	f.later()
	f.ensure(web(), nodes(1))
	f.wantCalls("nothing to do", "GET loadbalancers", "GET listeners", "GET pools", "GET loadbalancers/status", "GET floatingips")
	f.delete(web())
	if left := len(f.cloud.All(octaviatest.LoadBalancers)); left != mostShared {
		t.Errorf("%d load balancers are left, want those of others, %d", left, mostShared)
	}
}
