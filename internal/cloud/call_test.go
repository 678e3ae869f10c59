package cloud

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
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

// TestARefusedReadReturns: its controller repeats it, with a backoff for the object.
func TestARefusedReadReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &refusing{refusals: 1, retryAfter: 5 * time.Second}
		behind := cloud.decorated(Options{})
		_, err := metadataOf(t, behind, t.Context())
		if refusal, refused := classify.Refusal(err); !refused || refusal.RetryAfter != 5*time.Second || cloud.calls != 1 {
			t.Errorf("%d calls, error %v; want one and its ThrottledError", cloud.calls, err)
		}
	})
}

func TestARefusedWriteReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &refusing{refusals: 1, retryAfter: 5 * time.Second}
		balancer, _ := cloud.decorated(Options{}).LoadBalancer()
		err := balancer.EnsureLoadBalancerDeleted(t.Context(), "c", &v1.Service{})
		if refusal, refused := classify.Refusal(err); !refused || refusal.RetryAfter != 5*time.Second || cloud.calls != 1 {
			t.Errorf("%d calls, error %v; want one and its ThrottledError", cloud.calls, err)
		}
	})
}
