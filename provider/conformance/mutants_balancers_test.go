package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/provider/conformance"
)

type rightLB = cloudprovider.LoadBalancer

// statuses returns a mutation of the status that EnsureLoadBalancer returns.
func statuses(change func(m *mutant, status *v1.LoadBalancerStatus)) func(*mutant) {
	return func(m *mutant) {
		m.balancer.ensure = func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node,
		) (*v1.LoadBalancerStatus, error) {
			status, err := right.EnsureLoadBalancer(ctx, cluster, service, nodes)
			if err == nil {
				change(m, status)
			}
			return status, err
		}
	}
}

// ensures returns a mutation of the targets that EnsureLoadBalancer makes.
func ensures(targets func([]*v1.Node) []*v1.Node) func(*mutant) {
	return func(m *mutant) {
		m.balancer.ensure = func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node,
		) (*v1.LoadBalancerStatus, error) {
			return right.EnsureLoadBalancer(ctx, cluster, service, targets(nodes))
		}
	}
}

// updates returns a mutation of UpdateLoadBalancer.
func updates(update func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error,
) func(*mutant) {
	return func(m *mutant) { m.balancer.update = update }
}

// removes returns a mutation of EnsureLoadBalancerDeleted.
func removes(remove func(ctx context.Context, right rightLB, cluster string, service *v1.Service) error) func(*mutant) {
	return func(m *mutant) { m.balancer.remove = remove }
}

// gets returns a mutation of what GetLoadBalancer answers.
func gets(change func(*v1.LoadBalancerStatus, bool, error) (*v1.LoadBalancerStatus, bool, error)) func(*mutant) {
	return func(m *mutant) {
		m.balancer.get = func(ctx context.Context, right rightLB, cluster string, service *v1.Service,
		) (*v1.LoadBalancerStatus, bool, error) {
			return change(right.GetLoadBalancer(ctx, cluster, service))
		}
	}
}

func balancerMutations() []mutation {
	return []mutation{
		{"balancer-absent", "everything exists",
			gets(func(status *v1.LoadBalancerStatus, _ bool, err error) (*v1.LoadBalancerStatus, bool, error) {
				return status, true, err
			})},
		{"balancer-delete-absent", "absence is an error when deleting",
			removes(func(ctx context.Context, right rightLB, cluster string, service *v1.Service) error {
				if _, exists, err := right.GetLoadBalancer(ctx, cluster, service); err == nil && !exists {
					return errors.New("not found")
				}
				return right.EnsureLoadBalancerDeleted(ctx, cluster, service)
			})},
		{"balancer-ensured-exists", "the status is not shown",
			gets(func(_ *v1.LoadBalancerStatus, exists bool, err error) (*v1.LoadBalancerStatus, bool, error) {
				return &v1.LoadBalancerStatus{}, exists, err
			})},
		{"balancer-ensure-again", "the status changes each time", statuses(func(m *mutant, status *v1.LoadBalancerStatus) {
			status.Ingress[0].IP = fmt.Sprintf("192.0.2.%d", m.count())
		})},
		{"balancer-name", "all have one name", func(m *mutant) { m.balancer.name = "balancer" }},
		{"balancer-deleted", "nothing is deleted",
			removes(func(context.Context, rightLB, string, *v1.Service) error { return nil })},
		{"balancer-read-only", "the service is written to",
			updates(func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error {
				service.Annotations = map[string]string{"touched": "true"}
				return right.UpdateLoadBalancer(ctx, cluster, service, nodes)
			})},
		{"balancer-read-only", "a node is written to", ensures(func(nodes []*v1.Node) []*v1.Node {
			nodes[0].Labels["touched"] = "true"
			return nodes
		})},
		{"balancer-read-only", "the nodes are sorted", ensures(func(nodes []*v1.Node) []*v1.Node {
			slices.SortFunc(nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
			return nodes
		})},
		{"balancer-read-only", "a node is appended", ensures(func(nodes []*v1.Node) []*v1.Node {
			_ = append(nodes, nodes[0])
			return nodes
		})},
		{"balancer-targets", "one target is left out", ensures(func(nodes []*v1.Node) []*v1.Node { return nodes[1:] })},
		{"balancer-update-targets", "the last target stays",
			updates(func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error {
				if len(nodes) == 0 {
					return nil
				}
				return right.UpdateLoadBalancer(ctx, cluster, service, nodes)
			})},
		{"balancer-update-creates-nothing", "an update ensures",
			updates(func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error {
				_, err := right.EnsureLoadBalancer(ctx, cluster, service, nodes)
				return err
			})},
		{"balancer-concurrent", "the second of two at once is lost", func(m *mutant) {
			m.balancer.ensure = func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node,
			) (*v1.LoadBalancerStatus, error) {
				if m.meet(ctx) == 2 {
					return &v1.LoadBalancerStatus{}, nil
				}
				return right.EnsureLoadBalancer(ctx, cluster, service, nodes)
			}
		}},
	}
}

// services returns a mutation of the Service that all calls see.
func services(change func(*v1.Service)) func(*mutant) {
	return func(m *mutant) {
		m.balancer.service = func(service *v1.Service) *v1.Service {
			service = service.DeepCopy()
			change(service)
			return service
		}
	}
}

func balancerShapeMutations() []mutation {
	return []mutation{
		{"balancer-status", "the address is none", statuses(func(_ *mutant, status *v1.LoadBalancerStatus) {
			status.Ingress[0].IP = "pending"
		})},
		{"balancer-status", "there is no address", statuses(func(_ *mutant, status *v1.LoadBalancerStatus) { status.Ingress = nil })},
		{"balancer-ip-mode", "a host name has an ipMode", statuses(func(_ *mutant, status *v1.LoadBalancerStatus) {
			status.Ingress[0].IP, status.Ingress[0].Hostname = "", "balancer.example"
		})},
		{"balancer-ports", "one port is taken", services(func(service *v1.Service) { service.Spec.Ports = service.Spec.Ports[:1] })},
		{"balancer-protocols", "all ports are TCP", services(func(service *v1.Service) {
			service.Spec.Ports = service.Spec.Ports[:1]
			service.Spec.Ports[0].Protocol = v1.ProtocolTCP
		})},
		{"balancer-source-ranges", "everybody may connect", services(func(service *v1.Service) {
			service.Spec.LoadBalancerSourceRanges = nil
		})},
		{"balancer-health-check", "the node port is checked", services(func(service *v1.Service) {
			service.Spec.HealthCheckNodePort = 0
		})},
		{"balancer-families", "everything is IPv4", services(func(service *v1.Service) {
			service.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol}
		})},
		{"balancer-same-name", "load balancers go by the names of services", services(func(service *v1.Service) {
			service.UID = types.UID(service.Namespace + "-" + service.Name[:16])
		})},
		{"balancer-list-agrees", "the list names other services", balancerLists(
			func(_ *mutant, balancers []provider.LoadBalancer, err error) ([]provider.LoadBalancer, error) {
				for i := range balancers {
					balancers[i].Service.Name = "another"
				}
				return balancers, err
			})},
		{"balancer-list-agrees", "the list names another cluster", balancerLists(
			func(_ *mutant, balancers []provider.LoadBalancer, err error) ([]provider.LoadBalancer, error) {
				for i := range balancers {
					balancers[i].ClusterUID = "another"
				}
				return balancers, err
			})},
		{"balancer-list-deleted", "what was deleted stays in the list", func(m *mutant) {
			remember(m)
			balancerLists(func(m *mutant, balancers []provider.LoadBalancer, err error) ([]provider.LoadBalancer, error) {
				for _, service := range m.ensured {
					balancers = append(balancers, provider.LoadBalancer{Name: "ghost", ServiceUID: service.UID})
				}
				return balancers, err
			})(m)
		}},
		{"balancer-other-cluster", "the cluster's name is ignored", sameCluster},
	}
}

// balancerLists returns a mutation of what a list of load balancers answers.
func balancerLists(change func(*mutant, []provider.LoadBalancer, error) ([]provider.LoadBalancer, error)) func(*mutant) {
	return func(m *mutant) {
		m.capabilities = func(c *provider.Capabilities) {
			list := c.ListLoadBalancers
			c.ListLoadBalancers = func(ctx context.Context, cluster string) ([]provider.LoadBalancer, error) {
				balancers, err := list(ctx, cluster)
				return change(m, balancers, err)
			}
		}
	}
}

// remember has a mutant remember the Services whose load balancers were ensured.
func remember(m *mutant) {
	m.balancer.ensure = func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node,
	) (*v1.LoadBalancerStatus, error) {
		m.ensured = append(m.ensured, service)
		return right.EnsureLoadBalancer(ctx, cluster, service, nodes)
	}
}

// sameCluster makes the provider of another cluster take ours for its own.
func sameCluster(m *mutant) {
	m.subject.Hooks.OtherCluster = func(context.Context) (cloudprovider.Interface, string, error) {
		return m.Cloud, conformance.DefaultClusterName, nil
	}
}

func balancerFailureMutations() []mutation {
	return []mutation{
		{"balancer-failure-is-no-absence", "a failure is reported as absence",
			gets(func(status *v1.LoadBalancerStatus, exists bool, _ error) (*v1.LoadBalancerStatus, bool, error) {
				return status, exists, nil
			})},
		{"balancer-failure-is-no-success", "a failure to update is dropped",
			updates(func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error {
				_ = right.UpdateLoadBalancer(ctx, cluster, service, nodes)
				return nil
			})},
		{"balancer-failure-is-no-deletion", "a failure to delete is dropped",
			removes(func(ctx context.Context, right rightLB, cluster string, service *v1.Service) error {
				_ = right.EnsureLoadBalancerDeleted(ctx, cluster, service)
				return nil
			})},
		{"balancer-list-failure", "a failure is reported as a short list", balancerLists(
			func(_ *mutant, balancers []provider.LoadBalancer, _ error) ([]provider.LoadBalancer, error) {
				return balancers, nil
			})},
		{"balancer-context", "the context is ignored",
			updates(func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error {
				return right.UpdateLoadBalancer(context.WithoutCancel(ctx), cluster, service, nodes)
			})},
		{"balancer-deadline", "the deadline is ignored",
			updates(func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error {
				return right.UpdateLoadBalancer(context.WithoutCancel(ctx), cluster, service, nodes)
			})},
	}
}
