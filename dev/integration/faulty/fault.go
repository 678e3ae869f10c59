package faulty

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// Fault is how a call misbehaves. The zero value is a call that works.
type Fault struct {
	// Before runs ahead of the cloud's work. If it returns an error, that is the call's error and the cloud does nothing. Released
	// is closed by Cloud.Release.
	Before func(ctx context.Context, released <-chan struct{}) error
	// After is the error of a call whose work the cloud has done.
	After error
	// Answer replaces what the cloud answers. Request and answer have the types of the operation; see Answer.
	Answer func(request, answer any) any
}

// ErrReleased is what a call returns that hung until the end of the test.
var ErrReleased = errors.New("the call hung and was released")

// Fail returns an error.
func Fail(err error) Fault {
	return Fault{Before: func(context.Context, <-chan struct{}) error { return err }}
}

// Panic panics with a value.
func Panic(value any) Fault {
	return Fault{Before: func(context.Context, <-chan struct{}) error { panic(value) }}
}

// Goexit ends the goroutine of the call, as t.FailNow does in a fake and some libraries do.
func Goexit() Fault {
	return Fault{Before: func(context.Context, <-chan struct{}) error {
		runtime.Goexit()
		return nil
	}}
}

// Hang ignores the context and does not return before Cloud.Release.
func Hang() Fault {
	return Fault{Before: func(_ context.Context, released <-chan struct{}) error {
		<-released
		return ErrReleased
	}}
}

// Slow works after a while. It returns early when its context ends.
func Slow(delay time.Duration) Fault {
	return Fault{Before: func(ctx context.Context, released <-chan struct{}) error {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-released:
			return ErrReleased
		}
	}}
}

// Throttle refuses the call for its quota by this project's error.
func Throttle(retryAfter time.Duration) Fault {
	return Fail(provider.Throttled(retryAfter, errors.New("too many requests")))
}

// ThrottleInWords refuses the call for its quota as the Azure provider does: by a plain error with the time to wait in its text.
func ThrottleInWords(retryAfter time.Duration) Fault {
	text := fmt.Sprintf("Retriable: true, RetryAfter: %.0fs, HTTPStatusCode: 429, RawError: azure cloud provider throttled "+
		"for operation LBCreateOrUpdate with reason \"client throttled\"", retryAfter.Seconds())
	return Fail(errors.New(text))
}

// Answer replaces the answer of an operation by one that is made from its request and from the right answer.
func Answer[Request, T any](answer func(request Request, right T) T) Fault {
	return Fault{Answer: func(request, right any) any { return answer(request.(Request), right.(T)) }}
}

// Echo answers GetLoadBalancer and EnsureLoadBalancer with the status that the Service has. An agent in the cluster fills that in
// later, as for providers whose load balancers run on the nodes.
func Echo() Fault {
	return Answer(func(service *corev1.Service, _ *corev1.LoadBalancerStatus) *corev1.LoadBalancerStatus {
		return service.Status.LoadBalancer.DeepCopy()
	})
}

// FailAfter returns an error after the cloud has done its work, as a provider does that fails at the last of several steps.
func FailAfter(err error) Fault { return Fault{After: err} }

// AddressesTwice answers InstanceMetadata with each address twice.
func AddressesTwice() Fault {
	return describe(func(wrong *cloudprovider.InstanceMetadata) {
		wrong.NodeAddresses = slices.Concat(wrong.NodeAddresses, wrong.NodeAddresses)
	})
}

// HostNamesOnly answers InstanceMetadata without an IP address.
func HostNamesOnly() Fault {
	return describe(func(wrong *cloudprovider.InstanceMetadata) {
		wrong.NodeAddresses = slices.DeleteFunc(slices.Clone(wrong.NodeAddresses), func(address corev1.NodeAddress) bool {
			return address.Type != corev1.NodeHostName
		})
	})
}

// describe answers InstanceMetadata with the right answer changed.
func describe(change func(*cloudprovider.InstanceMetadata)) Fault {
	return Answer(func(_ *corev1.Node, right *cloudprovider.InstanceMetadata) *cloudprovider.InstanceMetadata {
		wrong := *right
		change(&wrong)
		return &wrong
	})
}

// SpelledOtherwise lists an instance with a provider ID in capitals.
func SpelledOtherwise() Fault {
	return Answer(func(_ provider.Instance, page []provider.Instance) []provider.Instance {
		wrong := slices.Clone(page)
		for i := range wrong {
			scheme, id, _ := strings.Cut(wrong[i].ProviderID, "://")
			wrong[i].ProviderID = scheme + "://" + strings.ToUpper(id)
		}
		return wrong
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

// Then returns a fault that is this one and, if the call has not failed by it, the next one.
func (f Fault) Then(next Fault) Fault {
	return Fault{
		Before: func(ctx context.Context, released <-chan struct{}) error {
			for _, before := range []func(context.Context, <-chan struct{}) error{f.Before, next.Before} {
				if before == nil {
					continue
				}
				if err := before(ctx, released); err != nil {
					return err
				}
			}
			return nil
		},
		After: cmp.Or(f.After, next.After),
		Answer: func(request, answer any) any {
			for _, replace := range []func(any, any) any{f.Answer, next.Answer} {
				if replace != nil {
					answer = replace(request, answer)
				}
			}
			return answer
		},
	}
}
