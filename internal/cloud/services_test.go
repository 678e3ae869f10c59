package cloud

import (
	"context"
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// scribbling is a plugin that writes into the Services that it is given.
type scribbling struct{ plugin }

type scribblingBalancers struct{}

func (s *scribbling) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return scribblingBalancers{}, true
}

func (s *scribbling) Capabilities() provider.Capabilities {
	return provider.Capabilities{ChangeTargets: func(_ context.Context, _ string, service *v1.Service, _, _ []*v1.Node) error {
		scribble(service)
		return nil
	}}
}

func scribble(service *v1.Service) { service.Annotations["written-by"] = "plugin" }

func (scribblingBalancers) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	scribble(service)
	return "name"
}

func (scribblingBalancers) GetLoadBalancer(_ context.Context, _ string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	scribble(service)
	return &v1.LoadBalancerStatus{}, true, nil
}

func (scribblingBalancers) EnsureLoadBalancer(_ context.Context, _ string, service *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
	scribble(service)
	return &v1.LoadBalancerStatus{}, nil
}

func (scribblingBalancers) UpdateLoadBalancer(_ context.Context, _ string, service *v1.Service, _ []*v1.Node) error {
	scribble(service)
	return nil
}

func (scribblingBalancers) EnsureLoadBalancerDeleted(_ context.Context, _ string, service *v1.Service) error {
	scribble(service)
	return nil
}

// A plugin may write into the Service that it is given: no other code has it.
func TestEachCallHasItsOwnService(t *testing.T) {
	behind := Decorate(&scribbling{}, Options{})
	balancers, _ := behind.LoadBalancer()
	ctx := t.Context()
	for name, call := range map[string]func(*v1.Service) error{
		"GetLoadBalancerName": func(s *v1.Service) error { balancers.GetLoadBalancerName(ctx, "c", s); return nil },
		"GetLoadBalancer":     func(s *v1.Service) error { _, _, err := balancers.GetLoadBalancer(ctx, "c", s); return err },
		"EnsureLoadBalancer":  func(s *v1.Service) error { _, err := balancers.EnsureLoadBalancer(ctx, "c", s, nil); return err },
		"UpdateLoadBalancer":  func(s *v1.Service) error { return balancers.UpdateLoadBalancer(ctx, "c", s, nil) },
		"EnsureLoadBalancerDeleted": func(s *v1.Service) error {
			return balancers.EnsureLoadBalancerDeleted(ctx, "c", s)
		},
		"ChangeTargets": func(s *v1.Service) error { return provider.CapabilitiesOf(behind).ChangeTargets(ctx, "c", s, nil, nil) },
	} {
		service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Annotations: map[string]string{"a": "b"}}}
		if err := call(service); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !maps.Equal(service.Annotations, map[string]string{"a": "b"}) {
			t.Errorf("%s: the caller's Service has the annotations %v", name, service.Annotations)
		}
	}
}
