package environment

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

func TestThrottleBalancersRefusesCreationsOnly(t *testing.T) {
	cloud, err := startCloud(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cloud.close(); err != nil {
			t.Error(err)
		}
	})
	if err := cloud.ThrottleBalancers(1, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{0, 10 * time.Second, 10 * time.Second} {
		_, err := cloud.client.CreateLoadBalancer(t.Context(), api.LoadBalancerSpec{Name: "a"})
		refusal := &api.Error{}
		if !errors.As(err, &refusal) || refusal.Status != http.StatusTooManyRequests || refusal.RetryAfter != want {
			t.Errorf("creation %d: %v with Retry-After %s, want a refusal with %s", i+1, err, refusal.RetryAfter, want)
		}
	}
	if _, err := cloud.client.GetInstanceByName(t.Context(), cloudsim.DefaultInstance(1).Name); err != nil {
		t.Errorf("an instance is not served: %v", err)
	}
	if got, want := cloud.calls()["CreateLoadBalancer"], (figures.Calls{Received: 3, Refused: 3}); got != want || cloud.Refused() != 3 {
		t.Errorf("counted %+v, want %+v; %d refused in all", got, want, cloud.Refused())
	}
}
