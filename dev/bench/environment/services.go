package environment

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// benchmarkLabel is on the Services of the benchmark.
const benchmarkLabel = "bench.mooring.dev/service"

// nodePorts are what the API server gives to Services: the default range has less than 3,000.
const nodePorts = "20000-39999"

// MostServices is for how many Services there are node ports, with some to spare.
const MostServices = 15_000

// CreateServices creates Services of the type LoadBalancer as fast as the API server takes them.
func (e *Environment) CreateServices(ctx context.Context, count int) error {
	return e.eachService(ctx, count, func(ctx context.Context, name string) error {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{benchmarkLabel: ""}},
			Spec: corev1.ServiceSpec{
				Type:     corev1.ServiceTypeLoadBalancer,
				Selector: map[string]string{"app": name},
				Ports:    []corev1.ServicePort{{Name: "http", Port: 80}},
			},
		}
		_, err := e.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
		return err
	})
}

// DeleteServices deletes what CreateServices created, as fast as the API server takes it.
func (e *Environment) DeleteServices(ctx context.Context, count int) error {
	return e.eachService(ctx, count, func(ctx context.Context, name string) error {
		return e.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// RemoveServices deletes all Services that CreateServices created, and waits until none is left.
func (e *Environment) RemoveServices(ctx context.Context) error {
	all := e.watch.countServices(func(*corev1.Service) bool { return true })
	if err := e.DeleteServices(ctx, all); err != nil {
		return err
	}
	return await(ctx, func() int { return all - e.watch.countServices(func(*corev1.Service) bool { return true }) }, all,
		func(int) {}, e.problem)
}

func (e *Environment) eachService(ctx context.Context, count int, do func(ctx context.Context, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for number := range count {
		group.Go(func() error { return do(ctx, fmt.Sprintf("web-%03d", number+1)) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("create or delete %d services: %w", count, err)
	}
	return nil
}

// AwaitAddresses waits until so many Services show an address.
func (e *Environment) AwaitAddresses(ctx context.Context, want int) error {
	return e.await(ctx, want, func() int {
		return e.watch.countServices(func(service *corev1.Service) bool { return len(service.Status.LoadBalancer.Ingress) > 0 })
	})
}

// AwaitNoServices waits until of so many Services none is left, nor a load balancer.
func (e *Environment) AwaitNoServices(ctx context.Context, all int) error {
	return e.await(ctx, all+1, func() int {
		gone := all - e.watch.countServices(func(*corev1.Service) bool { return true })
		if left, _ := e.Cloud.Balancers(); gone == all && left == 0 {
			return all + 1
		}
		return gone
	})
}

func isBenchmark(service *corev1.Service) bool {
	_, found := service.Labels[benchmarkLabel]
	return found
}
