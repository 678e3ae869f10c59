package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// outage is a cloud whose calls for instances can be made to fail, while its load balancers work.
type outage struct {
	failing atomic.Bool
	asked   atomic.Int32
	cloud   cloudprovider.Interface
}

func newOutage(registry prometheus.Registerer) *outage {
	o := &outage{}
	o.cloud = Decorate(&plugin{
		metadata: func(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
			o.asked.Add(1)
			if o.failing.Load() || node.Name == "broken" {
				return nil, errors.New("connection refused")
			}
			return &cloudprovider.InstanceMetadata{}, nil
		},
		ensure: func(context.Context) error { return nil },
	}, Options{Registerer: registry})
	return o
}

func (o *outage) ask(ctx context.Context, node string) error {
	instances, _ := o.cloud.InstancesV2()
	_, err := instances.InstanceMetadata(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	return err
}

// begin makes calls fail until the breaker opens.
func (o *outage) begin(t *testing.T) {
	t.Helper()
	o.failing.Store(true)
	guard := o.cloud.(*decorated).calls.guard
	for !guard.breakers[instanceCalls].open {
		_ = o.ask(t.Context(), fmt.Sprint("node-", o.asked.Load()))
		time.Sleep(openPast / openAfter)
	}
}

func TestRefreshesFailAtOnceWhileTheCloudFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(nil)
		o.begin(t)
		asked, start := o.asked.Load(), time.Now()
		err := o.ask(WithPriority(t.Context(), PriorityRefresh), "a")
		if o.asked.Load() != asked {
			err = o.ask(WithPriority(t.Context(), PriorityRefresh), "a") // the first was a turn to try
			asked = o.asked.Load()
		}
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) || !errors.Is(err, ErrUnavailable) {
			t.Fatalf("error = %v, want an UnavailableError", err)
		}
		if unavailable.Group != "instances" || unavailable.Since.IsZero() || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error = %v, want it to say for what, since when and why", err)
		}
		if o.asked.Load() != asked || time.Since(start) != 0 {
			t.Errorf("the cloud was asked, or it took %s", time.Since(start))
		}
	})
}

func TestUrgentCallsTryInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(nil)
		o.begin(t)
		asked := o.asked.Load()
		ended := make(chan error, 20)
		for range cap(ended) {
			go func() { ended <- o.ask(WithPriority(t.Context(), PriorityNewNode), "a") }()
		}
		time.Sleep(4 * time.Second)
		if got := o.asked.Load() - asked; got < 1 || got > 4 {
			t.Errorf("the cloud was asked %d times in 4 s, want one call at a time", got)
		}
		o.failing.Store(false)
		time.Sleep(lastTry)
		synctest.Wait()
		if len(ended) != cap(ended) {
			t.Fatalf("%d of %d calls came back after the cloud did", len(ended), cap(ended))
		}
		succeeded := 0
		for range cap(ended) {
			if <-ended == nil {
				succeeded++
			}
		}
		if succeeded < cap(ended)-4 {
			t.Errorf("%d of %d calls succeeded, want all that had not tried before", succeeded, cap(ended))
		}
	})
}

func TestOneGroupDoesNotHoldUpAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		o := newOutage(registry)
		o.begin(t)
		balancer, _ := o.cloud.LoadBalancer()
		start := time.Now()
		if err := balancer.EnsureLoadBalancerDeleted(WithPriority(t.Context(), PriorityRefresh), "c", &v1.Service{}); err != nil {
			t.Errorf("a load balancer while instances fail: %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %s", took)
		}
		want := `
# HELP mooring_cloud_breaker_open 1 while calls of a group are held back because the cloud fails all of them, otherwise 0.
# TYPE mooring_cloud_breaker_open gauge
mooring_cloud_breaker_open{group="instances"} 1
mooring_cloud_breaker_open{group="load_balancers"} 0
mooring_cloud_breaker_open{group="routes"} 0
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "mooring_cloud_breaker_open"); err != nil {
			t.Error(err)
		}
	})
}

// TestOneBrokenNodeStopsNobody: neither among healthy ones, nor when it is the only one that is asked for.
func TestOneBrokenNodeStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(nil)
		refresh := WithPriority(t.Context(), PriorityRefresh)
		for i := range 100 {
			if err := o.ask(refresh, "broken"); err == nil || errors.Is(err, ErrUnavailable) {
				t.Fatalf("the broken node's own error is %v", err)
			}
			if i%20 == 19 {
				if err := o.ask(refresh, "healthy"); err != nil {
					t.Fatalf("a healthy node after %d failures of the broken one: %v", i+1, err)
				}
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// TestAnswersAreNoFailures: what the cloud says about one object is an answer.
func TestAnswersAreNoFailures(t *testing.T) {
	for name, answer := range map[string]error{
		"not found":       cloudprovider.InstanceNotFound,
		"not implemented": cloudprovider.NotImplemented,
		"terminal":        &provider.TerminalError{Err: errors.New("no")},
		"canceled":        context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(newMetrics(nil))
			for range 10 * openAfter {
				g.leave(t.Context(), subject{"ListInstances", instanceCalls, ""}, outcomeOf(answer), answer)
			}
			if g.breakers[instanceCalls].failures != 0 {
				t.Errorf("%d failures are counted, want none", g.breakers[instanceCalls].failures)
			}
		})
	}
}
