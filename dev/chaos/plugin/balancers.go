package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/providers/sim"
)

// askAgainAfter is when a plugin wants to be asked again for a load balancer that takes its time.
const askAgainAfter = time.Second

type balancers struct{ of cloudprovider.LoadBalancer }

// found is what GetLoadBalancer returns besides its error.
type found struct {
	status *corev1.LoadBalancerStatus
	exists bool
}

func (b balancers) GetLoadBalancerName(ctx context.Context, cluster string, service *corev1.Service) string {
	return b.of.GetLoadBalancerName(ctx, cluster, service)
}

func (b balancers) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	got, err := call(func() (found, error) {
		if has(misbehavior.OtherNotFound) {
			return found{}, errNoSecret()
		}
		status, exists, err := b.of.GetLoadBalancer(ctx, cluster, service)
		switch {
		case err != nil || !exists:
		case has(misbehavior.NoBalancer):
			return found{}, nil
		case has(misbehavior.OtherStatus):
			status = &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: service.Name + ".example.com"}}}
		}
		return found{status, exists}, err
	})
	return got.status, got.exists, err
}

func (b balancers) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	return call(func() (*corev1.LoadBalancerStatus, error) {
		scribble(service)
		switch {
		case has(misbehavior.AskAgain):
			return nil, cloudproviderapi.NewRetryError("the load balancer is being made", askAgainAfter)
		case has(misbehavior.EnsureFails):
			return nil, errors.New("an annotation of the Service is wrong")
		}
		if err := refuseForeign(nodes); err != nil {
			return nil, err
		}
		return b.of.EnsureLoadBalancer(ctx, cluster, service, nodes)
	})
}

func (b balancers) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	return do(func() error {
		scribble(service)
		if err := refuseForeign(nodes); err != nil {
			return err
		}
		return b.of.UpdateLoadBalancer(ctx, cluster, service, nodes)
	})
}

func (b balancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	return do(func() error {
		if has(misbehavior.OtherNotFound) {
			return errNoSecret()
		}
		if has(misbehavior.GoneUndeletable) {
			if _, exists, err := b.of.GetLoadBalancer(ctx, cluster, service); err != nil || !exists {
				return errors.Join(err, errors.New("there is no load balancer of that name to delete"))
			}
		}
		return b.of.EnsureLoadBalancerDeleted(ctx, cluster, service)
	})
}

// errNoSecret is a "not found" of something that is no load balancer.
func errNoSecret() error {
	return fmt.Errorf("read the cloud's password: %w", apierrors.NewNotFound(corev1.Resource("secrets"), "cloud"))
}

// scribble writes into a Service as a plugin does that takes it for its own.
func scribble(service *corev1.Service) {
	if service.Annotations == nil {
		service.Annotations = map[string]string{}
	}
	service.Annotations["chaos.example.com/load-balancer-id"] = string(service.UID)
}

// refuseForeign fails for one node that is not of this cloud.
func refuseForeign(nodes []*corev1.Node) error {
	for _, node := range nodes {
		if !strings.HasPrefix(node.Spec.ProviderID, sim.ProviderID("")) {
			return fmt.Errorf("node %s has provider ID %q, which is not of this cloud", node.Name, node.Spec.ProviderID)
		}
	}
	return nil
}
