package faulty_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

var errCloud = errors.New("internal error")

// outcome is how a call ended.
type outcome struct {
	err      error
	panicked any
	returned bool
	after    time.Duration
}

// call asks for a node's metadata in a goroutine of its own, until a minute has passed and the calls that hang are released.
func call(t *testing.T, cloud *faulty.Cloud, node string) (ended outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	time.AfterFunc(time.Minute, cloud.Release)
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		defer func() { ended.panicked, ended.after = recover(), time.Since(began) }()
		_, ended.err = cloud.InstanceMetadata(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
		ended.returned = true
	}()
	<-done
	return ended
}

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault pluginfault.Fault
		want  outcome // without a specific error
		err   error
	}{
		"none":                  {pluginfault.Fault{}, outcome{returned: true}, nil},
		"fail":                  {pluginfault.Fail(errCloud), outcome{returned: true}, errCloud},
		"panic":                 {pluginfault.Panic("boom"), outcome{panicked: "boom"}, nil},
		"goexit":                {pluginfault.Goexit(), outcome{}, nil},
		"slow":                  {pluginfault.Slow(time.Second), outcome{returned: true, after: time.Second}, nil},
		"slower than its time":  {pluginfault.Slow(time.Hour), outcome{returned: true, after: 10 * time.Second}, context.DeadlineExceeded},
		"slow, then it fails":   {pluginfault.Slow(time.Second).Then(pluginfault.Fail(errCloud)), outcome{returned: true, after: time.Second}, errCloud},
		"hang until the end":    {pluginfault.Hang(), outcome{returned: true, after: time.Minute}, fault.ErrReleased},
		"only another one does": {pluginfault.Fault{}, outcome{returned: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := faulty.New(t.Name(), faulty.Options{})
				cloud.AddInstance("a")
				cloud.Fault("InstanceMetadata", "a", test.fault)
				cloud.Fault("InstanceMetadata", "another", pluginfault.Hang())
				got := call(t, cloud, "a")
				if !errors.Is(got.err, test.err) || (got.err == nil) != (test.err == nil) {
					t.Errorf("the error is %v, want %v", got.err, test.err)
				}
				if got.err = nil; got != test.want {
					t.Errorf("got %+v, want %+v", got, test.want)
				}
				calls := cloud.Calls("InstanceMetadata", pluginfault.Any)
				if len(calls) != 1 || calls[0].Object != "a" || calls[0].Ended.Sub(calls[0].Began) != test.want.after {
					t.Errorf("the calls are %+v", calls)
				}
				if cloud.UnderWay("InstanceMetadata", "a") != 0 {
					t.Error("the call is under way")
				}
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := faulty.New(t.Name(), faulty.Options{})
		cloud.Fault("InstanceMetadata", pluginfault.Any, pluginfault.Throttle(time.Minute))
		if after, ok := provider.RetryAfter(call(t, cloud, "a").err); !ok || after != time.Minute {
			t.Errorf("it asks to wait %s, %t", after, ok)
		}
		cloud.Fault("InstanceMetadata", pluginfault.Any, pluginfault.ThrottleInWords(10*time.Minute))
		const want = `Retriable: true, RetryAfter: 600s, HTTPStatusCode: 429, RawError: {"error":{"code":"SubscriptionRequestsThrottled",`
		if err := call(t, cloud, "a").err; provider.IsThrottled(err) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("it says %v", err)
		}
	})
}

// A wrong answer is made from the right one; an echo is made from what was asked.
func TestAnswers(t *testing.T) {
	cloud := faulty.New(t.Name(), faulty.Options{})
	cloud.AddInstance("a")
	for count, fault := range map[int]pluginfault.Fault{4: pluginfault.AddressesTwice(), 1: pluginfault.HostNamesOnly(), 2: {}} {
		cloud.Fault("InstanceMetadata", "a", fault)
		got, err := cloud.InstanceMetadata(t.Context(), named("a", ""))
		if err != nil || len(got.NodeAddresses) != count {
			t.Errorf("got %+v, %v; want %d addresses", got, err, count)
		}
	}
	cloud.Fault("EnsureLoadBalancer", "default/a", pluginfault.Echo())
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	for _, ip := range []string{"", "192.0.2.1"} {
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		status, err := cloud.EnsureLoadBalancer(t.Context(), "kubernetes", service, nil)
		if err != nil || status.Ingress[0].IP != ip {
			t.Errorf("got %+v, %v; want %q", status, err, ip)
		}
	}
}

func named(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// An instance that takes the place of another is another one.
func TestInstances(t *testing.T) {
	for bare, want := range map[bool][]string{false: {t.Name() + "-false://a", t.Name() + "-false://a.2"}, true: {"a", "a.2"}} {
		cloud := faulty.New(fmt.Sprintf("%s-%t", t.Name(), bare), faulty.Options{BareIDs: bare})
		for i, id := range want {
			cloud.AddInstance("a")
			if got := cloud.ProviderID("a"); got != id {
				t.Errorf("instance %d has the provider ID %q, want %q", i, got, id)
			}
			if exists, err := cloud.InstanceExists(t.Context(), named("a", id)); !exists || err != nil {
				t.Errorf("instance %q: %t, %v", id, exists, err)
			}
		}
		if exists, err := cloud.InstanceExists(t.Context(), named("a", want[0])); exists || err != nil {
			t.Errorf("the instance before it: %t, %v", exists, err)
		}
		if exists, err := cloud.InstanceExists(t.Context(), named("a", "other://a")); exists || err == nil {
			t.Errorf("one of another cloud: %t, %v", exists, err)
		}
		cloud.StopInstance("a")
		if shutdown, err := cloud.InstanceShutdown(t.Context(), named("a", "")); !shutdown || err != nil {
			t.Errorf("when it is stopped: %t, %v", shutdown, err)
		}
		cloud.StartInstance("a")
		if shutdown, err := cloud.InstanceShutdown(t.Context(), named("a", "")); shutdown || err != nil {
			t.Errorf("when it is started again: %t, %v", shutdown, err)
		}
		cloud.LoseInstance("a")
		if exists, err := cloud.InstanceExists(t.Context(), named("a", "")); exists || err != nil {
			t.Errorf("when it is lost: %t, %v", exists, err)
		}
	}
}

// A write can do its work and fail, and what is there can look otherwise.
func TestLoadBalancers(t *testing.T) {
	cloud := faulty.New(t.Name(), faulty.Options{})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	if _, err := cloud.EnsureLoadBalancer(t.Context(), "kubernetes", service, nil); err != nil {
		t.Fatal(err)
	}
	cloud.Fault("GetLoadBalancer", "default/a", pluginfault.OtherIngress())
	status, exists, err := cloud.GetLoadBalancer(t.Context(), "kubernetes", service)
	if err != nil || !exists || status.Ingress[0].Hostname != "a.example.com" {
		t.Errorf("got %+v, %t, %v", status, exists, err)
	}
	cloud.Fault("EnsureLoadBalancerDeleted", "default/a", pluginfault.FailAfter(errCloud))
	if err := cloud.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", service); !errors.Is(err, errCloud) {
		t.Errorf("the deletion returns %v", err)
	}
	if status, exists, err := cloud.GetLoadBalancer(t.Context(), "kubernetes", service); exists || err != nil {
		t.Errorf("after it there is %v, %v", status, err)
	}
}

// A page of a list can spell a provider ID otherwise than the rest of the cloud does.
func TestList(t *testing.T) {
	cloud := faulty.New("lists", faulty.Options{Lists: true})
	cloud.AddInstance("a")
	cloud.AddInstance("b")
	cloud.Fault("ListInstances", "a", pluginfault.SpelledOtherwise())
	var said []string
	if err := cloud.Capabilities().ListInstances(t.Context(), func(page []provider.Instance) error {
		said = append(said, page[0].ProviderID)
		return nil
	}); err != nil || !slices.Equal(said, []string{"lists://A", "lists://b"}) {
		t.Errorf("the list is %q, %v", said, err)
	}
}

// A watch begins with everything, goes on with what changes, and says once a second that this was all.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := faulty.New(t.Name(), faulty.Options{Watches: true})
		cloud.AddInstance("a")
		time.AfterFunc(1500*time.Millisecond, func() { cloud.RemoveInstance("a") })
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var said []string
		err := cloud.Capabilities().WatchInstances(ctx, func(event provider.InstanceEvent) error {
			said = append(said, event.Kind.String()+string(event.Instance.NodeName))
			return nil
		})
		if want := []string{"seta", "mark", "mark", "deleteda", "mark", "mark"}; !slices.Equal(said, want) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it said %q and ended with %v, want %q", said, err, want)
		}
	})
}
