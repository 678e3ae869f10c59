package election

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

// The timing here is the default one: a lease of 15 s, overdue 13 s after its last renewal.
const (
	overdueAfter = 13 * time.Second
	expiredAfter = 15 * time.Second
)

// tenure is a lock in virtual time, with an API server in memory.
type tenure struct {
	*Lock
	client *fake.Clientset
	losses atomic.Int32 // how often OnLost was called
}

func newTenure(t *testing.T) *tenure {
	t.Helper()
	tenure := &tenure{client: fake.NewClientset()}
	leases := tenure.client.CoordinationV1()
	tenure.Lock = newLock(leases, leases.Leases("kube-system"), Options{
		Namespace: "kube-system", Name: "lease", Identity: "us",
		LeaseDuration: expiredAfter, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		OnLost: func(error) { tenure.losses.Add(1) },
	})
	return tenure
}

// acquired is a tenure that began just now.
func acquired(t *testing.T) *tenure {
	t.Helper()
	tenure := newTenure(t)
	if err := tenure.Create(t.Context(), ours()); err != nil {
		t.Fatal(err)
	}
	return tenure
}

func ours() resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: "us", LeaseDurationSeconds: 15}
}

// slow makes the next writes of the lease take their time, before the API server looks at them.
func (t *tenure) slow(by time.Duration) {
	t.client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetVerb() != "get" {
			time.Sleep(by)
		}
		return false, nil, nil
	})
}

// give gives the lease to a holder.
func (t *tenure) give(to string) {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(to), LeaseDurationSeconds: ptr.To[int32](15)},
	}
	_ = t.client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, "kube-system")
}

// requireLost fails unless the lease is lost, or not, and the callback was called that often.
func (t *tenure) requireLost(test *testing.T, when string, lost bool, calls int) {
	test.Helper()
	if err := t.Lost(); (err != nil) != lost || lost && !errors.Is(err, ErrLost) {
		test.Errorf("%s: lost is %v, want an error: %v", when, err, lost)
	}
	synctest.Wait()
	if got := int(t.losses.Load()); got != calls {
		test.Errorf("%s: OnLost was called %d times, want %d", when, got, calls)
	}
}

func TestLeaseIsLostBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := newTenure(t)
		tenure.requireLost(t, "before this replica leads", false, 0)
		if err := tenure.Create(t.Context(), ours()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.Sleep(10 * time.Second)
		if err := tenure.Update(t.Context(), ours()); err != nil {
			t.Fatal(err)
		}
		overdue, expired := tenure.Expiry()
		if got := overdue.Sub(began); got != 10*time.Second+overdueAfter {
			t.Errorf("overdue after %s", got)
		}
		if got := expired.Sub(began); got != 10*time.Second+expiredAfter {
			t.Errorf("expired after %s", got)
		}
		time.Sleep(overdueAfter - time.Nanosecond)
		tenure.requireLost(t, "a moment before it is overdue", false, 0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if tenure.losses.Load() != 1 {
			t.Error("the loss is not announced")
		}
		tenure.requireLost(t, "overdue", true, 1)
	})
}

// TestRenewalCountsFromWhenItWasSent: others may see it as soon as that.
func TestRenewalCountsFromWhenItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := acquired(t)
		tenure.slow(4 * time.Second)
		if err := tenure.Update(t.Context(), ours()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(overdueAfter - 4*time.Second)
		tenure.requireLost(t, "13 s after the renewal was sent", true, 1)
	})
}

func TestLostLeaseStaysLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := acquired(t)
		tenure.slow(overdueAfter)
		if err := tenure.Update(t.Context(), ours()); !errors.Is(err, ErrLost) {
			t.Errorf("a renewal that was answered too late: %v", err)
		}
		tenure.client.ClearActions()
		if err := tenure.Update(t.Context(), ours()); !errors.Is(err, ErrLost) {
			t.Errorf("a renewal: %v", err)
		}
		if err := tenure.Update(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, ErrLost) {
			t.Errorf("a release of what another may have taken: %v", err)
		}
		if _, _, err := tenure.Get(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("a read: %v", err)
		}
		if actions := tenure.client.Actions(); len(actions) != 0 {
			t.Errorf("the API server was asked for %v", actions)
		}
		time.Sleep(time.Hour)
		tenure.requireLost(t, "an hour later", true, 1)
	})
}

// TestLeaseWonTooLate is a replica that was stopped while it took the lease.
func TestLeaseWonTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := newTenure(t)
		tenure.slow(overdueAfter)
		if err := tenure.Create(t.Context(), ours()); !errors.Is(err, ErrLost) {
			t.Errorf("taken with the error %v", err)
		}
		tenure.requireLost(t, "not led yet", false, 0)
	})
}

func TestAnotherHolderIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := acquired(t)
		if _, _, err := tenure.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		tenure.give("")
		if _, _, err := tenure.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		tenure.requireLost(t, "without a holder", false, 0)
		tenure.give("them")
		if record, _, err := tenure.Get(t.Context()); err != nil || record.HolderIdentity != "them" {
			t.Errorf("read %v, %v", record, err)
		}
		tenure.requireLost(t, "held by another", true, 1)
		if err := tenure.Lost(); !strings.Contains(err.Error(), "them holds it") {
			t.Errorf("the reason is %v", err)
		}
	})
}

func TestReleasedLeaseIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := acquired(t)
		if err := tenure.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		tenure.requireLost(t, "an hour after the release", false, 0)
	})
}

func TestRenouncedLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := acquired(t)
		tenure.Renounce()
		time.Sleep(time.Hour)
		tenure.requireLost(t, "renounced", true, 0)
		if err := tenure.Check(nil); err != nil {
			t.Errorf("the check of a replica that no longer leads: %v", err)
		}
	})
}

// TestClocks sets one of the two clocks ahead of the other.
func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(monotonic, wall time.Duration) instant {
			begin := now()
			return instant{begin.monotonic.Add(monotonic), begin.wall.Add(wall)}
		}
		for name, test := range map[string]struct {
			now  instant
			lost bool
			ends bool
		}{
			"neither":                          {at(12*time.Second, 12*time.Second), false, false},
			"both":                             {at(overdueAfter, overdueAfter), true, true},
			"the wall clock is set back":       {at(overdueAfter, -time.Hour), true, true},
			"the machine was suspended":        {at(time.Second, overdueAfter), true, false},
			"the wall clock is set back early": {at(time.Second, -time.Hour), false, false},
		} {
			tenure := acquired(t)
			if err := tenure.lostAt(test.now); errors.Is(err, ErrLost) != test.lost {
				t.Errorf("%s: lost is %v, want an error: %v", name, err, test.lost)
			}
			// A renewal reopens what was overdue by the wall clock only.
			if err := tenure.Update(context.WithoutCancel(t.Context()), ours()); errors.Is(err, ErrLost) != test.ends {
				t.Errorf("%s: a renewal: %v, want an error: %v", name, err, test.ends)
			}
			if err := tenure.Lost(); (err != nil) != test.ends {
				t.Errorf("%s: after a renewal, lost is %v", name, err)
			}
		}
	})
}
