package openstack

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/openstack/fakecloud"
	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// answered bounds a call that does not wait for a service that hangs.
const answered = 30 * time.Second

// A service that does not answer, not even which versions it has, delays no call of the other services.
func TestServicesDoNotWaitForEachOther(t *testing.T) {
	instances := func(ctx context.Context, subject *Cloud) error {
		return subject.Capabilities().ListInstances(ctx, func([]provider.Instance) error { return nil })
	}
	exists := func(ctx context.Context, subject *Cloud) error {
		servers, _ := subject.InstancesV2()
		_, err := servers.InstanceExists(ctx, &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "openstack:///5c6a5a0c-3f4c-4a47-8a7e-000000000001"}})
		return err
	}
	balancers := func(ctx context.Context, subject *Cloud) error {
		service, _ := subject.LoadBalancer()
		_, _, err := service.GetLoadBalancer(ctx, "kubernetes", web())
		return err
	}
	routes := func(ctx context.Context, subject *Cloud) error {
		table, _ := subject.Routes()
		_, err := table.ListRoutes(ctx, "kubernetes")
		return err
	}
	type call = func(context.Context, *Cloud) error
	for path, test := range map[string]struct {
		waits  call
		others map[string]call
	}{
		"/compute/":       {instances, map[string]call{"load balancers": balancers, "routes": routes}},
		"/load-balancer/": {balancers, map[string]call{"instances": instances, "routes": routes}},
		"/network/":       {routes, map[string]call{"one instance": exists}},
	} {
		t.Run(strings.Trim(path, "/"), func(t *testing.T) {
			cloud := fakecloud.New(t)
			cloud.Balancers = octaviatest.New(t, 0)
			cloud.Router = fakecloud.Object{"id": "router", "routes": []any{}, "revision_number": 1}
			hangs, over, once := make(chan struct{}), make(chan struct{}), sync.Once{}
			t.Cleanup(func() { close(over) })
			cloud.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, path) {
					return false
				}
				once.Do(func() { close(hangs) })
				<-over // what looks for the versions of a service outlives the call that needed it
				return true
			}
			subject := New(cloud.Source(t, more))
			waiting, cancel := context.WithCancel(t.Context())
			var ended sync.WaitGroup
			ended.Go(func() {
				if err := test.waits(waiting, subject); !errors.Is(err, context.Canceled) {
					t.Errorf("the call that waited returned %v", err)
				}
			})
			defer ended.Wait()
			defer cancel()
			<-hangs
			for name, other := range test.others {
				ctx, cancel := context.WithTimeout(t.Context(), answered)
				if err := other(ctx, subject); err != nil {
					t.Errorf("%s, while %s hangs: %v", name, path, err)
				}
				cancel()
			}
		})
	}
}

// Keystone says 404 to an application credential that was deleted. That is a refusal, and no answer about a load balancer: "come again" would
// have it asked every two seconds, and "it does not exist" would let a Service go whose load balancer stays.
func TestDeletedCredentialsAreNoAnswerAboutLoadBalancers(t *testing.T) {
	cloud := fakecloud.New(t)
	cloud.Balancers = octaviatest.New(t, 0)
	subject := New(cloud.Source(t, "[LoadBalancer]\nfloating-network-id=public\nsubnet-id=nodes\n"))
	balancers, _ := subject.LoadBalancer()
	ctx, nodes := provider.WithClusterUID(t.Context(), types.UID("cluster-uid")), []*corev1.Node{node()}
	if _, err := balancers.EnsureLoadBalancer(ctx, "kubernetes", web(), nodes); !comesAgain(err) {
		t.Fatal(err)
	}
	cloud.Lock()
	cloud.Tokens = map[string]bool{}
	cloud.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v3/auth/tokens" {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error": {"code": 404, "message": "Could not find Application Credential: 1234.", "title": "Not Found"}}`))
		return true
	}
	cloud.Unlock()
	named := web()
	named.Annotations = map[string]string{"loadbalancer.openstack.org/load-balancer-id": "loadbalancers-1"}
	for name, call := range map[string]func() error{
		"get":          func() error { _, _, err := balancers.GetLoadBalancer(ctx, "kubernetes", web()); return err },
		"get by ID":    func() error { _, _, err := balancers.GetLoadBalancer(ctx, "kubernetes", named); return err },
		"ensure":       func() error { _, err := balancers.EnsureLoadBalancer(ctx, "kubernetes", web(), nodes); return err },
		"update":       func() error { return balancers.UpdateLoadBalancer(ctx, "kubernetes", web(), nodes) },
		"delete":       func() error { return balancers.EnsureLoadBalancerDeleted(ctx, "kubernetes", web()) },
		"delete by ID": func() error { return balancers.EnsureLoadBalancerDeleted(ctx, "kubernetes", named) },
	} {
		if err := call(); err == nil || !session.IsUnauthorized(err) || comesAgain(err) || provider.IsTerminal(err) {
			t.Errorf("%s: the error %v is a refusal: %t, to come again: %t, ends the tries: %t", name, err, session.IsUnauthorized(err),
				comesAgain(err), provider.IsTerminal(err))
		}
	}
}

func comesAgain(err error) bool {
	var again *cloudproviderapi.RetryError
	return errors.As(err, &again)
}
