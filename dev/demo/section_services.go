package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/internal/tool/words"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

const (
	// driftCheckPeriod is --load-balancer-drift-check-period of the replicas: 10 min by default. After two comparisons the Service says that
	// its load balancer is missing.
	driftCheckPeriod = 2 * time.Second
	// changed is the annotation by whose change a load balancer is made again. Without a change that takes ten minutes: the cloud may deny
	// one that is there.
	changed = "example.com/changed"
	// reasonNotFound is why a Service is not ready whose load balancer the cloud does not find.
	reasonNotFound = "NotFound"
	// shop is the name of the Service, in the namespace default.
	shop = "shop"
)

// services has a Service reached from outside.
func services() section {
	var seen offer
	return section{name: "services", title: "Services", steps: []step{
		{
			name: "address", title: "a Service of type LoadBalancer gets an address, behind which is every node", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (string, error) { return seen.open(ctx, s) },
		},
		{
			name: "repaired", title: "the load balancer is deleted in the cloud: the Service says so, and gets another when it is changed", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (string, error) { return seen.lose(ctx, s) },
		},
		{
			name: "deleted", title: "the Service is deleted, and the load balancer with it", deadline: stepDeadline,
			run: func(ctx context.Context, s *environment) (string, error) { return seen.end(ctx, s) },
		},
	}}
}

// offer is what the steps of the section know of each other.
type offer struct {
	// service is the Service, and balancer what the cloud made for it.
	service  *corev1.Service
	balancer api.LoadBalancer
}

func (o *offer) open(ctx context.Context, s *environment) (string, error) {
	began := time.Now()
	_, err := s.kubernetes.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: shop},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if err := o.await(ctx, s, func() error { return nil }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, port %d, is there after %s, with %s behind it", o.address(), o.balancer.Listeners[0].Port,
		seconds(time.Since(began)), words.Count(len(o.balancer.Targets), "node", "nodes")), nil
}

// await waits until the Service has an address and the cloud a load balancer with that address, which sends to every node and
// lacks nothing else.
func (o *offer) await(ctx context.Context, s *environment, lacks func() error) error {
	return awaitCloud(ctx, func() (err error) {
		if o.service, err = s.kubernetes.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, shop, metav1.GetOptions{}); err != nil {
			return err
		}
		found, err := s.balancers(ctx)
		switch {
		case err != nil:
			return err
		case len(found) != 1:
			return fmt.Errorf("the cloud has %d load balancers", len(found))
		case o.address() == "" || !slices.Contains(found[0].Addresses, o.address()):
			return fmt.Errorf("the Service has the address %q, the load balancer %q", o.address(), found[0].Addresses)
		}
		o.balancer = found[0]
		return errors.Join(s.behind(ctx, found[0]), lacks())
	})
}

// address is what the Service shows, or empty if it has no address.
func (o *offer) address() string {
	if ingress := o.service.Status.LoadBalancer.Ingress; len(ingress) > 0 {
		return ingress[0].IP
	}
	return ""
}

// balancers returns what the cloud has.
func (s *environment) balancers(ctx context.Context) (found []api.LoadBalancer, err error) {
	err = s.client.ListLoadBalancers(ctx, nil, func(page []api.LoadBalancer) error {
		found = append(found, page...)
		return nil
	})
	return found, err
}

// behind returns an error unless the targets of a load balancer are all nodes.
func (s *environment) behind(ctx context.Context, balancer api.LoadBalancer) error {
	var ids []string
	err := s.observed.await(ctx, func(v view) error {
		for _, node := range v.nodes {
			ids = append(ids, node.Spec.ProviderID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	targets := map[string]bool{}
	for _, target := range balancer.Targets {
		targets[sim.ProviderID(target)] = true
	}
	slices.Sort(ids)
	if got := slices.Sorted(maps.Keys(targets)); !slices.Equal(got, ids) {
		return fmt.Errorf("the load balancer sends to %d instances, and there are %d nodes", len(got), len(ids))
	}
	return nil
}

func (o *offer) lose(ctx context.Context, s *environment) (string, error) {
	lost := o.balancer
	if err := s.client.DeleteLoadBalancer(ctx, lost.Name, lost.Generation); err != nil {
		return "", err
	}
	began := time.Now()
	all := s.kubernetes.CoreV1().Services(metav1.NamespaceDefault)
	err := awaitCloud(ctx, func() error {
		service, err := all.Get(ctx, shop, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(service.Status.Conditions, names.ConditionLoadBalancerReady)
		if ready == nil || ready.Reason != reasonNotFound {
			return fmt.Errorf("the condition of the Service is %v", ready)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	said := time.Since(began)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, changed)
	if _, err := all.Patch(ctx, shop, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return "", err
	}
	began = time.Now()
	err = o.await(ctx, s, func() error {
		if o.balancer.ID == lost.ID {
			return errors.New("it is still the one that was deleted")
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the Service says %s after %s; the replicas compare load balancers every %s; %s is there %s after a change",
		reasonNotFound, seconds(said), driftCheckPeriod, o.address(), seconds(time.Since(began))), nil
}

func (o *offer) end(ctx context.Context, s *environment) (string, error) {
	began := time.Now()
	all := s.kubernetes.CoreV1().Services(metav1.NamespaceDefault)
	if err := all.Delete(ctx, shop, metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	err := awaitCloud(ctx, func() error {
		if _, err := all.Get(ctx, shop, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the Service is there"), err)
		}
		found, err := s.balancers(ctx)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("the cloud has %d load balancers", len(found))
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("both are gone after %s", seconds(time.Since(began))), nil
}
