package election_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/internal/election"
)

// The timing of all electors here. A leader that cannot reach the API server gives up a retry period and a renew deadline
// after its last renewal, which is before the lease expires; one more request, with its timeout of half the deadline, would
// take until after that.
const (
	leaseDuration = 16 * time.Second
	renewDeadline = 12 * time.Second
	retryPeriod   = 2 * time.Second
)

// history is what happened, in order.
type history struct {
	mu     sync.Mutex
	events []string
}

func (h *history) add(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

func (h *history) index(event string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, one := range h.events {
		if one == event {
			return i
		}
	}
	return -1
}

func (h *history) await(t *testing.T, event string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for h.index(event) < 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%q did not happen, but %q", event, h.events)
		}
	}
}

// replica runs an elector with the lock until cancel is called, and notes when it leads and when it stops.
func replica(t *testing.T, config *rest.Config, name, lease string, happened *history, beforeRelease func() error) (lock *election.Lock, cancel func()) {
	t.Helper()
	lock, err := election.New(config, election.Options{
		Namespace: "kube-system", Name: lease, Identity: name,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, BeforeRelease: beforeRelease,
	})
	if err != nil {
		t.Fatal(err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { happened.add(name + " leads") },
			OnStoppedLeading: func() { happened.add(name + " stops") },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { elector.Run(ctx) })
	cancel = func() {
		stop()
		running.Wait()
	}
	t.Cleanup(cancel)
	return lock, cancel
}

func TestLock(t *testing.T) {
	cluster := localclustertest.Start(t)
	for name, test := range map[string]func(*testing.T, *localcluster.Cluster){
		"a leader that hears nothing of the API server stops before another begins": partition,
		"a lease that may not be released is left to expire":                        keptLease,
		"a standby that is told to end does":                                        endedStandby,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for a lease of its own to expire
			test(t, cluster)
		})
	}
}

func partition(t *testing.T, cluster *localcluster.Cluster) {
	happened := &history{}
	proxy := localclustertest.NewProxy(t, cluster.AdminConfig())
	_, _ = replica(t, proxy.Config, "leader", "partition", happened, nil)
	happened.await(t, "leader leads")
	_, _ = replica(t, cluster.AdminConfig(), "standby", "partition", happened, nil)
	proxy.Pause()
	happened.await(t, "standby leads")
	if stopped := happened.index("leader stops"); stopped < 0 || stopped > happened.index("standby leads") {
		t.Errorf("two led at once: %q", happened.events)
	}
	proxy.Resume()
}

func keptLease(t *testing.T, cluster *localcluster.Cluster) {
	client := kubernetes.NewForConfigOrDie(cluster.AdminConfig())
	happened := &history{}
	lock, cancel := replica(t, cluster.AdminConfig(), "leader", "kept", happened, func() error { return errors.New("still at work") })
	happened.await(t, "leader leads")
	if err := lock.Check(nil); err != nil {
		t.Errorf("the check of a leader: %v", err)
	}
	cancel()
	lease, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "leader" {
		t.Fatalf("the lease was released: %v %v", lease, err)
	}
	_, _ = replica(t, cluster.AdminConfig(), "standby", "kept", happened, nil)
	happened.await(t, "standby leads")
}

func endedStandby(t *testing.T, cluster *localcluster.Cluster) {
	happened := &history{}
	_, _ = replica(t, cluster.AdminConfig(), "leader", "ended", happened, nil)
	happened.await(t, "leader leads")
	lock, cancel := replica(t, cluster.AdminConfig(), "standby", "ended", happened, nil)
	cancel()
	if happened.index("standby leads") >= 0 {
		t.Errorf("the standby led: %q", happened.events)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if record, _, err := lock.Get(ctx); err == nil && record.HolderIdentity != "leader" {
		t.Errorf("a standby that is told to end may take the lease of %q", record.HolderIdentity)
	}
}

var _ resourcelock.Interface = &election.Lock{}
