package pluginfault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// Fault is how a call misbehaves. The zero value is a call that works.
type Fault struct {
	// Before runs ahead of the plugin's work. If it returns an error, that is the call's error and the plugin does nothing.
	Before func(ctx context.Context, call Call, released <-chan struct{}) error
	// After replaces what the call returns, also if Before failed. The answer has the type of the operation, struct{} if it has none.
	After func(call Call, answer any, err error) (any, error)
}

func (f Fault) misbehaves() bool { return f.Before != nil || f.After != nil }

// Before has something happen ahead of the plugin's work. If it returns an error, that is the call's error and the plugin does nothing.
func Before(act func() error) Fault {
	return Fault{Before: func(context.Context, Call, <-chan struct{}) error { return act() }}
}

// Fail returns an error.
func Fail(err error) Fault { return Before(func() error { return err }) }

// Panic panics with a value.
func Panic(value any) Fault { return Before(func() error { panic(value) }) }

// Goexit ends the goroutine of the call, as t.FailNow does in a fake and some libraries do.
func Goexit() Fault {
	return Before(func() error {
		runtime.Goexit()
		return nil
	})
}

// Hang ignores the context and does not return before the call is released.
func Hang() Fault {
	return Fault{Before: func(_ context.Context, _ Call, released <-chan struct{}) error {
		return fault.Hang(context.Background(), released)
	}}
}

// Slow works after a while. It returns early when its context ends or the call is released.
func Slow(delay time.Duration) Fault {
	return Fault{Before: func(ctx context.Context, _ Call, released <-chan struct{}) error {
		return fault.Delay(ctx, delay, released)
	}}
}

// Throttle refuses the call for its quota by this project's error.
func Throttle(retryAfter time.Duration) Fault {
	return Fail(provider.Throttled(retryAfter, errors.New("too many requests")))
}

// ThrottleInWords refuses the call for the cloud's quota as the Azure provider does: by a plain error with the cloud's answer and the time to
// wait in its text.
func ThrottleInWords(retryAfter time.Duration) Fault {
	text := fmt.Sprintf(`Retriable: true, RetryAfter: %.0fs, HTTPStatusCode: 429, RawError: {"error":{"code":"SubscriptionRequestsThrottled",`+
		`"message":"Number of write requests for subscription exceeded the limit of '1200' for time interval '01:00:00'."}}`, retryAfter.Seconds())
	return Fail(errors.New(text))
}

// After replaces what an operation returns.
func After[T any](replace func(call Call, answer T, err error) (T, error)) Fault {
	return Fault{After: func(call Call, answer any, err error) (any, error) { return replace(call, answer.(T), err) }}
}

// Answer replaces the answer of a call that has not failed by one that is made from its request and from the right answer.
func Answer[Request, T any](answer func(request Request, right T) T) Fault {
	return After(func(call Call, right T, err error) (T, error) {
		if err != nil {
			return right, err
		}
		return answer(call.Request.(Request), right), nil
	})
}

// Echo answers GetLoadBalancer and EnsureLoadBalancer with the status that the Service has. An agent in the cluster fills that in
// later, as for providers whose load balancers run on the nodes.
func Echo() Fault {
	return Answer(func(service *corev1.Service, _ *corev1.LoadBalancerStatus) *corev1.LoadBalancerStatus {
		return service.Status.LoadBalancer.DeepCopy()
	})
}

// FailAfter returns an error after the cloud has done its work, as a provider does that fails at the last of several steps.
func FailAfter(err error) Fault {
	return Fault{After: func(_ Call, answer any, failed error) (any, error) { return answer, cmp.Or(failed, err) }}
}

// Describe changes how instances are described, in InstanceMetadata or in the pages of ListInstances.
func Describe(change func(*cloudprovider.InstanceMetadata)) Fault {
	return Fault{After: func(_ Call, answer any, err error) (any, error) {
		switch right := answer.(type) {
		case *cloudprovider.InstanceMetadata:
			if err == nil && right != nil {
				wrong := *right
				change(&wrong)
				return &wrong, nil
			}
		case []provider.Instance:
			wrong := slices.Clone(right)
			for i := range wrong {
				change(&wrong[i].InstanceMetadata)
			}
			return wrong, err
		}
		return answer, err
	}}
}

// AddressesTwice describes instances with each address twice.
func AddressesTwice() Fault {
	return Describe(func(wrong *cloudprovider.InstanceMetadata) {
		wrong.NodeAddresses = slices.Repeat(wrong.NodeAddresses, 2)
	})
}

// HostNamesOnly describes instances without an IP address.
func HostNamesOnly() Fault {
	return Describe(func(wrong *cloudprovider.InstanceMetadata) {
		wrong.NodeAddresses = slices.DeleteFunc(slices.Clone(wrong.NodeAddresses), func(address corev1.NodeAddress) bool {
			return address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP
		})
	})
}

// SpelledOtherwise describes instances with provider IDs in capitals.
func SpelledOtherwise() Fault {
	return Describe(func(wrong *cloudprovider.InstanceMetadata) {
		scheme, id, _ := strings.Cut(wrong.ProviderID, "://")
		wrong.ProviderID = scheme + "://" + strings.ToUpper(id)
	})
}

// OtherIngress answers GetLoadBalancer with a host name, where EnsureLoadBalancer answers with an address.
func OtherIngress() Fault {
	return Answer(func(service *corev1.Service, right *corev1.LoadBalancerStatus) *corev1.LoadBalancerStatus {
		if right == nil {
			return nil
		}
		return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: service.Name + ".example.com"}}}
	})
}

// Then returns a fault that is this one and then the next one.
func (f Fault) Then(next Fault) Fault { return Each(slices.Values([]Fault{f, next})) }

// Each returns a fault that is several ones, in order. What is ahead of the work ends with the first error. The faults are iterated over
// ahead of the work and again after it, one as the one before it ends.
func Each(faults iter.Seq[Fault]) Fault {
	return Fault{
		Before: func(ctx context.Context, call Call, released <-chan struct{}) error {
			for one := range faults {
				if one.Before == nil {
					continue
				}
				if err := one.Before(ctx, call, released); err != nil {
					return err
				}
			}
			return nil
		},
		After: func(call Call, answer any, err error) (any, error) {
			for one := range faults {
				if one.After != nil {
					answer, err = one.After(call, answer, err)
				}
			}
			return answer, err
		},
	}
}
