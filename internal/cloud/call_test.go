package cloud

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// refusing is a plugin that refuses the first calls, each after a second, and counts all.
type refusing struct {
	refusals   int
	retryAfter time.Duration
	calls      int
}

func (r *refusing) answer() error {
	r.calls++
	time.Sleep(time.Second)
	if r.calls <= r.refusals {
		return &provider.ThrottledError{RetryAfter: r.retryAfter, Err: errors.New("over quota")}
	}
	return nil
}

func (r *refusing) decorated(options Options) cloudprovider.Interface {
	return Decorate(&plugin{
		metadata: func(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) { return nil, r.answer() },
		ensure:   func(context.Context) error { return r.answer() },
		list: func(_ context.Context, yield func([]provider.Instance) error) error {
			if err := r.answer(); err != nil {
				return err
			}
			return yield(nil)
		},
	}, options)
}

func TestARefusedReadIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &refusing{refusals: 2, retryAfter: 5 * time.Second}
		start := time.Now()
		// The waits together are longer than the deadline, which is each attempt's.
		if _, err := metadataOf(t, cloud.decorated(Options{CallTimeout: 3 * time.Second}), t.Context()); err != nil {
			t.Errorf("error = %v, want none", err)
		}
		if took := time.Since(start); took != 13*time.Second || cloud.calls != 3 {
			t.Errorf("%d calls in %s, want three of a second and two pauses of five", cloud.calls, took)
		}
	})
}

func TestARefusedListingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &refusing{refusals: 1}
		pages := 0
		err := provider.CapabilitiesOf(cloud.decorated(Options{})).ListInstances(t.Context(), func([]provider.Instance) error {
			pages++
			return nil
		})
		if err != nil || pages != 1 || cloud.calls != 2 {
			t.Errorf("%d pages by %d calls, error %v; want one by two", pages, cloud.calls, err)
		}
	})
}

// TestAListingThatIsRefusedHalfwayIsNotRepeated: its pages have been handed on.
func TestAListingThatIsRefusedHalfwayIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		cloud := Decorate(&plugin{list: func(_ context.Context, yield func([]provider.Instance) error) error {
			calls++
			if err := yield(nil); err != nil {
				return err
			}
			return errors.New("429 Too Many Requests")
		}}, Options{})
		err := provider.CapabilitiesOf(cloud).ListInstances(t.Context(), func([]provider.Instance) error { return nil })
		if _, refused := throttled(err); !refused || calls != 1 {
			t.Errorf("%d calls, error %v; want one and a ThrottledError", calls, err)
		}
	})
}

func TestARefusedWriteReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &refusing{refusals: 1, retryAfter: 5 * time.Second}
		balancer, _ := cloud.decorated(Options{}).LoadBalancer()
		err := balancer.EnsureLoadBalancerDeleted(t.Context(), "c", &v1.Service{})
		if refusal, refused := throttled(err); !refused || refusal.RetryAfter != 5*time.Second || cloud.calls != 1 {
			t.Errorf("%d calls, error %v; want one and its ThrottledError", cloud.calls, err)
		}
	})
}

// TestTheCallerHearsOfALongRefusal: somebody may wait for a reason.
func TestTheCallerHearsOfALongRefusal(t *testing.T) {
	for name, cloud := range map[string]*refusing{
		"refused again and again":        {refusals: 1000},
		"asked to come again in an hour": {refusals: 1, retryAfter: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := metadataOf(t, cloud.decorated(Options{}), t.Context())
				if _, refused := throttled(err); !refused {
					t.Errorf("error = %v, want a ThrottledError", err)
				}
				if took := time.Since(start); took > patience+2*time.Second || cloud.calls > mostRefusals {
					t.Errorf("the error came after %s and %d calls", took, cloud.calls)
				}
			})
		})
	}
}
