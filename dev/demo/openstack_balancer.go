package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// services has a Service reached from outside.
func (p *privateCloud) services() section {
	return section{name: "services", title: "Services", steps: []step{
		{
			name: "address", title: "a Service of type LoadBalancer gets a load balancer of octavia and a floating IP, behind which is every node",
			deadline: cloudDeadline, run: p.expose,
		},
	}}
}

func (p *privateCloud) expose(ctx context.Context, s *environment) (detail string, err error) {
	began := time.Now()
	var members int
	if p.vip, members, err = p.serve(ctx, s, shop); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, port 80, is there after %s, with %s behind it", p.vip, seconds(time.Since(began)),
		words.Count(members, "node", "nodes")), nil
}

// serve makes a Service and returns the address that it gets, and how many members are behind it.
func (p *privateCloud) serve(ctx context.Context, s *environment, name string) (address string, members int, err error) {
	all := s.kubernetes.CoreV1().Services(metav1.NamespaceDefault)
	_, err = all.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", 0, err
	}
	err = awaitCloud(ctx, func() error {
		service, err := all.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("the Service %s has no address", name)
		}
		address = service.Status.LoadBalancer.Ingress[0].IP
		members, err = p.behind(ctx, s, name)
		return err
	})
	return address, members, err
}

// balancerName is how upstream's manager and this one name the load balancer of a Service.
func balancerName(service string) string {
	return "kube_service_kubernetes_" + metav1.NamespaceDefault + "_" + service
}

// balancersOf returns the load balancers that octavia has for a Service.
func (p *privateCloud) balancersOf(ctx context.Context, service string) ([]loadbalancers.LoadBalancer, error) {
	pages, err := loadbalancers.List(p.environment.Clients().LoadBalancer, loadbalancers.ListOpts{Name: balancerName(service)}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return loadbalancers.ExtractLoadBalancers(pages)
}

// behind returns how many members the load balancer of a Service has, and an error unless they are all nodes.
func (p *privateCloud) behind(ctx context.Context, s *environment, service string) (int, error) {
	found, err := p.balancersOf(ctx, service)
	if err != nil || len(found) != 1 {
		return 0, errors.Join(err, fmt.Errorf("octavia has %d load balancers %s", len(found), balancerName(service)))
	}
	client := p.environment.Clients().LoadBalancer
	pages, err := pools.List(client, pools.ListOpts{LoadbalancerID: found[0].ID}).AllPages(ctx)
	if err != nil {
		return 0, err
	}
	all, err := pools.ExtractPools(pages)
	if err != nil || len(all) != 1 {
		return 0, errors.Join(err, fmt.Errorf("the load balancer of %s has %d pools", service, len(all)))
	}
	if pages, err = pools.ListMembers(client, all[0].ID, nil).AllPages(ctx); err != nil {
		return 0, err
	}
	members, err := pools.ExtractMembers(pages)
	if err != nil {
		return 0, err
	}
	var got, want []string
	for _, member := range members {
		got = append(got, member.Address)
	}
	err = s.observed.await(ctx, func(v view) error {
		for _, node := range v.nodes {
			want = append(want, addressOf(node, corev1.NodeInternalIP))
		}
		return nil
	})
	slices.Sort(got)
	slices.Sort(want)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("the load balancer of %s sends to %v, and the nodes are %v", service, got, want)
	}
	return len(got), err
}

// unexpose deletes a Service, and waits until its load balancer is gone.
func (p *privateCloud) unexpose(ctx context.Context, s *environment, name string) error {
	all := s.kubernetes.CoreV1().Services(metav1.NamespaceDefault)
	if err := all.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return awaitCloud(ctx, func() error {
		if _, err := all.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("the Service %s is there", name), err)
		}
		found, err := p.balancersOf(ctx, name)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("octavia has the load balancer %s, which is %s", found[0].Name, found[0].ProvisioningStatus)
		}
		return err
	})
}
