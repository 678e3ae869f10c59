package cloudsim_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func newClock() *clocktesting.FakeClock {
	return clocktesting.NewFakeClock(time.Unix(1_000_000_000, 0))
}

// names lists the instances by name.
func names(t *testing.T, cloud *simtest.Cloud) []string {
	t.Helper()
	found := []string{}
	err := cloud.Client.ListInstances(t.Context(), func(page []api.Instance) error {
		for _, instance := range page {
			found = append(found, instance.Name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLatency(t *testing.T) {
	clock := newClock()
	cloud := simtest.Start(t, cloudsim.Options{Clock: clock, Knobs: api.Knobs{Latency: duration(time.Hour), LatencyJitter: duration(time.Minute)}})
	answered := make(chan error, 1)
	go func() {
		_, err := cloud.Client.GetInstance(t.Context(), "i-1")
		answered <- err
	}()
	simtest.Eventually(t, "the call waits", func(context.Context) bool { return clock.HasWaiters() })
	clock.Step(time.Hour - time.Second)
	if !clock.HasWaiters() {
		t.Fatal("the call was answered before its latency")
	}
	clock.Step(time.Minute + time.Second)
	if err := <-answered; !api.HasCode(err, api.CodeNotFound) {
		t.Errorf("answer: %v", err)
	}
}

func TestQuota(t *testing.T) {
	clock := newClock()
	cloud := simtest.Start(t, cloudsim.Options{Clock: clock, Knobs: api.Knobs{Quota: &api.Quota{RequestsPerSecond: 0.5, Burst: 3}}})
	call := func() error {
		return cloud.Client.ListZones(t.Context(), func([]api.Zone) error { return nil })
	}
	for range 3 {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a refused call takes nothing
		if answer := refusal(t, call()); answer.Status != http.StatusTooManyRequests || answer.RetryAfter != 2*time.Second {
			t.Errorf("above the quota: %+v, retry after %s", answer, answer.RetryAfter)
		}
	}
	clock.Step(2 * time.Second)
	if err := call(); err != nil {
		t.Errorf("after the time that was asked for: %v", err)
	}
	want := api.CallCount{Received: 6, Throttled: 2}
	if diff := cmp.Diff(want, cloud.Service.Counts().Operations[api.OpListZones]); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if served := want.Served(); served != 4 {
		t.Errorf("served %d, want 4", served)
	}
}

func TestListsLagBehindWrites(t *testing.T) {
	clock := newClock()
	cloud := simtest.Start(t, cloudsim.Options{Clock: clock, Knobs: api.Knobs{ListLag: duration(time.Minute)}})
	cloud.Create(t, cloudsim.DefaultInstance(1))
	if _, err := cloud.Client.GetInstanceByName(t.Context(), "node-001"); err != nil {
		t.Errorf("a get lags: %v", err)
	}
	clock.Step(59 * time.Second)
	if diff := cmp.Diff([]string{}, names(t, cloud)); diff != "" {
		t.Errorf("before the lag is over (-want +got):\n%s", diff)
	}
	clock.Step(time.Second)
	cloud.Delete(t, "node-001")
	if diff := cmp.Diff([]string{"node-001"}, names(t, cloud)); diff != "" {
		t.Errorf("after the lag, just deleted (-want +got):\n%s", diff)
	}
	clock.Step(time.Minute)
	if diff := cmp.Diff([]string{}, names(t, cloud)); diff != "" {
		t.Errorf("after the lag of the deletion (-want +got):\n%s", diff)
	}
}

func TestCreationIsAsynchronous(t *testing.T) {
	clock := newClock()
	cloud := simtest.Start(t, cloudsim.Options{
		Clock: clock, Seed: cloudsim.DefaultSeed(1),
		Knobs: api.Knobs{InstanceDelay: duration(time.Minute), LoadBalancerDelay: duration(time.Hour)},
	})
	spec := api.LoadBalancerSpec{
		Name: "web", Region: cloudsim.DefaultRegion, Listeners: []api.Listener{{Protocol: api.ProtocolTCP, Port: 80, TargetPort: 30080}},
	}
	balancer, err := cloud.Client.CreateLoadBalancer(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if balancer.State != api.LoadBalancerPending || balancer.Addresses != nil {
		t.Errorf("just created: %+v", balancer)
	}
	if _, err := cloud.Client.UpdateLoadBalancer(t.Context(), spec, 0); !api.HasCode(err, api.CodeConflict) {
		t.Errorf("changing a pending one: %v", err)
	}
	instance := cloud.Create(t, cloudsim.DefaultInstance(2))
	if instance.State != api.InstancePending {
		t.Errorf("just created: %+v", instance)
	}
	for _, op := range []api.Operation{api.OpCreateInstance, api.OpCreateLoadBalancer} {
		if err := cloud.Admin.AddFault(t.Context(), api.Fault{Operation: op, Mode: api.FaultAsync, Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	failing := cloud.Create(t, cloudsim.DefaultInstance(3))
	spec.Name = "failing"
	if _, err := cloud.Client.CreateLoadBalancer(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Hour)
	for id, want := range map[string]api.InstanceState{instance.ID: api.InstanceRunning, failing.ID: api.InstanceFailed} {
		if got, err := cloud.Client.GetInstance(t.Context(), id); err != nil || got.State != want {
			t.Errorf("instance %s: %+v, %v; want %s", id, got, err, want)
		}
	}
	for name, want := range map[string]api.LoadBalancerState{"web": api.LoadBalancerActive, "failing": api.LoadBalancerFailed} {
		got, err := cloud.Client.GetLoadBalancer(t.Context(), name)
		if err != nil || got.State != want || (len(got.Addresses) == 1) != (want == api.LoadBalancerActive) {
			t.Errorf("load balancer %s: %+v, %v; want %s", name, got, err, want)
		}
	}
}

// What the calls of TestFaults may end with.
func isRefusal(status int) func(error) bool {
	return func(err error) bool {
		var answer *api.Error
		return errors.As(err, &answer) && answer.Status == status && answer.RetryAfter == 7*time.Second
	}
}

func isInvalid(err error) bool {
	var answer *api.AnswerError
	return errors.As(err, &answer)
}

func isCut(err error) bool { return isInvalid(err) && errors.Is(err, io.ErrUnexpectedEOF) }

func isIncomplete(err error) bool {
	var incomplete *api.IncompleteListError
	return errors.As(err, &incomplete) && incomplete.Want == 5
}

func isNil(err error) bool { return err == nil }

func TestFaults(t *testing.T) {
	list := func(c *simtest.Cloud) error {
		return c.Client.ListInstances(t.Context(), func([]api.Instance) error { return nil })
	}
	get := func(c *simtest.Cloud) error {
		_, err := c.Client.GetInstance(t.Context(), "i-00000001")
		return err
	}
	remove := func(c *simtest.Cloud) error { return c.Client.DeleteInstance(t.Context(), "i-00000001", 0) }
	retry := duration(6001 * time.Millisecond)
	for name, c := range map[string]struct {
		fault api.Fault
		call  func(*simtest.Cloud) error
		want  func(error) bool
		// effect says that the instance is gone after the faulty call.
		effect bool
	}{
		"status of a get":      {fault: api.Fault{Operation: api.OpGetInstance, Mode: api.FaultStatus, Status: 503, RetryAfter: retry}, call: get, want: isRefusal(503)},
		"status of any":        {fault: api.Fault{Operation: api.AnyOperation, Mode: api.FaultStatus, Status: 404, RetryAfter: retry}, call: get, want: isRefusal(404)},
		"status of a deletion": {fault: api.Fault{Operation: api.OpDeleteInstance, Mode: api.FaultStatus, Status: 500, RetryAfter: retry}, call: remove, want: isRefusal(500)},
		"empty list":           {fault: api.Fault{Operation: api.OpListInstances, Mode: api.FaultEmpty}, call: list, want: isNil},
		"empty get":            {fault: api.Fault{Operation: api.OpGetInstance, Mode: api.FaultEmpty}, call: get, want: isInvalid},
		"truncated first page": {fault: api.Fault{Operation: api.OpListInstances, Mode: api.FaultTruncate}, call: list, want: isCut},
		"truncated last page":  {fault: api.Fault{Operation: api.OpListInstances, Mode: api.FaultTruncate, Skip: 2}, call: list, want: isCut},
		"truncated deletion":   {fault: api.Fault{Operation: api.OpDeleteInstance, Mode: api.FaultTruncate}, call: remove, want: isCut, effect: true},
		"malformed":            {fault: api.Fault{Operation: api.OpListInstances, Mode: api.FaultMalformed}, call: list, want: isInvalid},
		"short list":           {fault: api.Fault{Operation: api.OpListInstances, Mode: api.FaultShortList}, call: list, want: isIncomplete},
		"empty second page":    {fault: api.Fault{Operation: api.OpListInstances, Mode: api.FaultEmpty, Skip: 1}, call: list, want: isIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(5), Knobs: api.Knobs{PageSize: 2}})
			c.fault.Count = 1
			if err := cloud.Admin.AddFault(t.Context(), c.fault); err != nil {
				t.Fatal(err)
			}
			if err := c.call(cloud); !c.want(err) {
				t.Errorf("the faulty call: %v (%T)", err, err)
			}
			counts, err := cloud.Admin.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			faulted := int64(0)
			for _, n := range counts.Operations {
				faulted += n.Faulted
			}
			if faulted != 1 {
				t.Errorf("%d calls counted as faulted, want 1", faulted)
			}
			if left := cloud.Service.Faults(); len(left) != 0 {
				t.Errorf("faults left: %v", left)
			}
			err = get(cloud)
			if gone := api.HasCode(err, api.CodeNotFound); gone != c.effect || (err != nil && !gone) {
				t.Errorf("get after the fault: %v; want the instance gone: %v", err, c.effect)
			}
		})
	}
}

func TestHangEndsWhenFaultsAreCleared(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	if err := cloud.Service.AddFault(api.Fault{Operation: api.OpDeleteInstance, Mode: api.FaultHang, Count: 2}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan error, 1)
	hang := func() { hung <- cloud.Client.DeleteInstance(ctx, "i-00000001", 0) }
	inFlight := func(n int64) {
		simtest.Eventually(t, "the call arrives", func(context.Context) bool {
			return cloud.Service.Counts().Received(api.OpDeleteInstance) == n && len(cloud.Service.Faults()) == int(2-n)
		})
	}
	go hang()
	inFlight(1)
	cancel()
	if err := <-hung; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that gave up got %v", err)
	}
	ctx = t.Context()
	go hang()
	inFlight(2)
	if err := cloud.Admin.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-hung; !api.HasCode(err, api.CodeUnavailable) {
		t.Errorf("the hung call was answered with %v", err)
	}
	if diff := cmp.Diff([]string{"node-001"}, names(t, cloud)); diff != "" {
		t.Errorf("a hung deletion had an effect (-want +got):\n%s", diff)
	}
}

func TestAdmin(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{})
	knobs := api.Knobs{PageSize: 7, Latency: duration(time.Millisecond), Quota: &api.Quota{RequestsPerSecond: 1000, Burst: 5}}
	if err := cloud.Admin.SetKnobs(t.Context(), knobs); err != nil {
		t.Fatal(err)
	}
	got, err := cloud.Admin.Knobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(knobs, got); diff != "" {
		t.Errorf("knobs (-set +got):\n%s", diff)
	}
	err = cloud.Admin.SetKnobs(t.Context(), api.Knobs{
		PageSize: -1, Latency: duration(-1), ListLag: duration(-1), Quota: &api.Quota{Burst: -1},
	})
	want := []string{"latency", "listLag", "pageSize", "quota.requestsPerSecond", "quota.burst"}
	if diff := cmp.Diff(want, fields(t, err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	err = cloud.Admin.AddFault(t.Context(), api.Fault{Operation: "Explode", Mode: api.FaultStatus, Status: 200, Skip: -1})
	if diff := cmp.Diff([]string{"operation", "status", "skip", "count"}, fields(t, err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	err = cloud.Admin.AddFault(t.Context(), api.Fault{Operation: api.OpGetInstance, Mode: api.FaultShortList, Status: 500, Count: 1})
	if diff := cmp.Diff([]string{"status", "operation"}, fields(t, err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	names(t, cloud)
	if n := cloud.Service.Counts().Received(); n != 1 {
		t.Errorf("%d calls counted, want the one list and none of the admin API", n)
	}
	if err := cloud.Admin.ResetCounts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := cloud.Service.Counts().Received(); n != 0 {
		t.Errorf("%d calls counted after a reset", n)
	}
}

func TestMaxRoutes(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1), Knobs: api.Knobs{MaxRoutes: 1}})
	spec := api.RouteSpec{Cluster: "one", DestinationCIDR: "10.244.1.0/24", TargetInstance: "i-00000001"}
	for range 2 { // the second time it is there already
		if _, err := cloud.Client.CreateRoute(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	spec.DestinationCIDR = "10.244.2.0/24"
	if _, err := cloud.Client.CreateRoute(t.Context(), spec); !api.HasCode(err, api.CodeConflict) {
		t.Errorf("a route beyond the limit: %v", err)
	}
	spec.Cluster = "two"
	if _, err := cloud.Client.CreateRoute(t.Context(), spec); err != nil {
		t.Errorf("a route of another cluster: %v", err)
	}
}
