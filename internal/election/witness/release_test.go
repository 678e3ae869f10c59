package witness

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// ours is the lease of the tests, and who led by it.
var ours = Lease{Namespace: "kube-system", Name: "lease", Identity: "host_1"}

// heldBy returns the lease as a holder renewed it; nil is no holder at all.
func heldBy(holder *string) *coordinationv1.Lease {
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: ours.Name, ResourceVersion: "7", Labels: map[string]string{"a": "b"}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: holder, LeaseDurationSeconds: ptr.To[int32](15), LeaseTransitions: ptr.To[int32](4), AcquireTime: &at, RenewTime: &at,
			Strategy: ptr.To(coordinationv1.OldestEmulationVersion), PreferredHolder: ptr.To("host_2"),
		},
	}
}

func TestReleased(t *testing.T) {
	for name, test := range map[string]struct {
		holder   *string
		identity string
		want     bool
	}{
		"held by the dead":           {ptr.To("host_1"), "host_1", true},
		"held by another":            {ptr.To("host_2"), "host_1", false},
		"held by one named alike":    {ptr.To("host_11"), "host_1", false},
		"held by another case of it": {ptr.To("HOST_1"), "host_1", false},
		"released":                   {ptr.To(""), "host_1", false},
		"without a holder":           {nil, "host_1", false},
		"of nobody, by nobody":       {ptr.To(""), "", false},
		"of nobody, without holder":  {nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			lease, now := heldBy(test.holder), time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
			got, is := released(lease, test.identity, now)
			if is != test.want {
				t.Fatalf("released: %v, want %v", is, test.want)
			}
			if diff := cmp.Diff(heldBy(test.holder), lease); diff != "" {
				t.Errorf("the lease that was read has changed:\n%s", diff)
			}
			if !test.want {
				return
			}
			want := heldBy(ptr.To(""))
			at := metav1.NewMicroTime(now)
			want.Spec.LeaseDurationSeconds, want.Spec.AcquireTime, want.Spec.RenewTime = ptr.To[int32](1), &at, &at
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("as it is released (-want +got):\n%s", diff)
			}
		})
	}
}

// leases is an API server with one Lease.
type leases struct {
	coordinationv1client.LeaseInterface // nil: a request that is not expected ends the test
	get                                 func() (*coordinationv1.Lease, error)
	update                              func(*coordinationv1.Lease) error
	requests                            atomic.Int32
}

func (l *leases) Leases(string) coordinationv1client.LeaseInterface { return l }

func (l *leases) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	l.requests.Add(1)
	return l.get()
}

func (l *leases) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	l.requests.Add(1)
	return lease, l.update(lease)
}

// TestReleaseIsTriedAgain until it is done, or the lease is somebody else's, or the time is over.
func TestReleaseIsTriedAgain(t *testing.T) {
	down, conflict := errors.New("connection refused"), apierrors.NewConflict(coordinationv1.Resource("leases"), "lease", errors.New("changed"))
	mine := func() (*coordinationv1.Lease, error) { return heldBy(ptr.To(ours.Identity)), nil }
	for name, test := range map[string]struct {
		get      func(nth int) (*coordinationv1.Lease, error)
		update   func(nth int) error
		done     bool
		err      error
		requests int32
	}{
		"at once": {func(int) (*coordinationv1.Lease, error) { return mine() }, func(int) error { return nil }, true, nil, 2},
		"a renewal arrived in between": {func(int) (*coordinationv1.Lease, error) { return mine() }, func(nth int) error {
			if nth == 1 {
				return conflict
			}
			return nil
		}, true, nil, 4},
		"another one took it in between": {func(nth int) (*coordinationv1.Lease, error) {
			if nth == 1 {
				return mine()
			}
			return heldBy(ptr.To("host_2")), nil
		}, func(int) error { return conflict }, false, nil, 3},
		"gone": {func(int) (*coordinationv1.Lease, error) {
			return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), "lease")
		}, nil, false, nil, 1},
		"the API server is back after a while": {func(nth int) (*coordinationv1.Lease, error) {
			if nth < 5 {
				return nil, down
			}
			return mine()
		}, func(int) error { return nil }, true, nil, 6},
		// Pauses of 0.1, 0.2, 0.4 and 0.8 s, and then of a second within the 10 s.
		"the API server stays away": {func(int) (*coordinationv1.Lease, error) { return nil, down }, nil, false, down, 13},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gets, updates := 0, 0
				server := &leases{
					get:    func() (*coordinationv1.Lease, error) { gets++; return test.get(gets) },
					update: func(*coordinationv1.Lease) error { updates++; return test.update(updates) },
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				done, err := release(ctx, server, ours)
				if done != test.done || !errors.Is(err, test.err) || (err != nil) != (test.err != nil) {
					t.Errorf("released: %v, %v; want %v, %v", done, err, test.done, test.err)
				}
				if got := server.requests.Load(); got != test.requests {
					t.Errorf("%d requests, want %d", got, test.requests)
				}
			})
		})
	}
}

// several are Leases that do not behave alike.
type several map[string]*leases

func (s several) Leases(namespace string) coordinationv1client.LeaseInterface { return s[namespace] }

// TestOneLeaseHoldsUpNoOther releases the second one at once, while the first fails to the end.
func TestOneLeaseHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var after time.Duration
		servers := several{
			"bad": {get: func() (*coordinationv1.Lease, error) { return nil, fmt.Errorf("forbidden") }},
			"good": {
				get:    func() (*coordinationv1.Lease, error) { return heldBy(ptr.To(ours.Identity)), nil },
				update: func(*coordinationv1.Lease) error { after = time.Since(began); return nil },
			},
		}
		settings := Settings{Duration: 5 * time.Second, Leases: []Lease{
			{Namespace: "bad", Name: "a", Identity: ours.Identity}, {Namespace: "good", Name: "b", Identity: ours.Identity},
		}}
		settings.releaseAll(logr.Discard(), servers)
		if after != 0 || servers["good"].requests.Load() != 2 {
			t.Errorf("the good lease was released after %s and %d requests", after, servers["good"].requests.Load())
		}
		if took := time.Since(began); took != settings.Duration {
			t.Errorf("the bad lease was tried for %s, want for its duration of %s", took, settings.Duration)
		}
	})
}
