package tiny

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"

	"example.com/tiny-ccm/tinycloud"
)

// The tags by which a load balancer says whose it is.
const (
	tagCluster    = "cluster"
	tagClusterUID = "cluster-uid"
	tagService    = "service"
	tagServiceUID = "service-uid"
)

// balancers is cloudprovider.LoadBalancer.
type balancers struct{ *Cloud }

// GetLoadBalancerName implements cloudprovider.LoadBalancer. The UID tells apart Services of one name.
func (b balancers) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return "lb-" + string(service.UID)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (b balancers) GetLoadBalancer(ctx context.Context, clusterName string, service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	found, err := b.observe(ctx, clusterName, service)
	if err != nil || found == nil {
		return nil, false, err
	}
	return statusOf(*found), true, nil
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b balancers) EnsureLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	wanted, err := desired(ctx, clusterName, service, nodes)
	if err != nil {
		return nil, err
	}
	if _, err := b.observe(ctx, clusterName, service); err != nil {
		return nil, err
	}
	made, err := b.put(ctx, service, wanted)
	if err != nil {
		return nil, err
	}
	return statusOf(made), nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. It changes the targets, and nothing else.
func (b balancers) UpdateLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) error {
	found, err := b.observe(ctx, clusterName, service)
	if err != nil {
		return err
	}
	if found == nil {
		return fmt.Errorf("service %s/%s has no load balancer", service.Namespace, service.Name)
	}
	if found.Targets, err = targets(nodes); err != nil {
		return err
	}
	_, err = b.put(ctx, service, *found)
	return err
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b balancers) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *v1.Service) error {
	found, err := b.observe(ctx, clusterName, service)
	if err != nil || found == nil {
		return err
	}
	err = b.client.do(ctx, http.MethodDelete, "/balancers/"+found.Name, nil, &struct{}{})
	if errors.Is(err, errNotFound) {
		return nil
	}
	return err
}

// observe returns the Service's load balancer, or nil if it has none. One of another cluster is an error: it is left alone.
func (b balancers) observe(ctx context.Context, clusterName string, service *v1.Service) (*tinycloud.Balancer, error) {
	var found tinycloud.Balancer
	err := b.client.do(ctx, http.MethodGet, "/balancers/"+b.GetLoadBalancerName(ctx, clusterName, service), nil, &found)
	switch {
	case errors.Is(err, errNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case found.Tags[tagCluster] != clusterName:
		return nil, fmt.Errorf("load balancer %s belongs to cluster %q", found.Name, found.Tags[tagCluster])
	}
	return &found, nil
}

func (b balancers) put(ctx context.Context, service *v1.Service, wanted tinycloud.Balancer) (tinycloud.Balancer, error) {
	var made tinycloud.Balancer
	err := b.client.do(ctx, http.MethodPut, "/balancers/"+b.GetLoadBalancerName(ctx, "", service), wanted, &made)
	return made, err
}

// desired is the load balancer that a Service asks for. What the cloud cannot do is an error that repeating does not mend.
func desired(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) (tinycloud.Balancer, error) {
	if slices.Contains(service.Spec.IPFamilies, v1.IPv6Protocol) {
		return tinycloud.Balancer{}, provider.Terminal(errors.New("ipFamilies: the cloud has no IPv6"))
	}
	ids, err := targets(nodes)
	wanted := tinycloud.Balancer{
		Tags: map[string]string{
			tagCluster: clusterName, tagClusterUID: string(provider.ClusterUID(ctx)),
			tagService: service.Namespace + "/" + service.Name, tagServiceUID: string(service.UID),
		},
		SourceRanges: service.Spec.LoadBalancerSourceRanges,
		Targets:      ids,
	}
	if service.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal {
		wanted.HealthPort = service.Spec.HealthCheckNodePort
	}
	for _, port := range service.Spec.Ports {
		wanted.Ports = append(wanted.Ports, tinycloud.Port{Protocol: string(port.Protocol), Port: port.Port, NodePort: port.NodePort})
	}
	return wanted, err
}

// targets returns the IDs of the nodes' servers. A node of another provider has none here, and does not keep the others out.
func targets(nodes []*v1.Node) ([]string, error) {
	var ids []string
	for _, node := range nodes {
		if scheme, _, found := strings.Cut(node.Spec.ProviderID, "://"); found && scheme != ProviderName {
			continue
		}
		id, err := serverID(node.Spec.ProviderID)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", node.Name, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func statusOf(balancer tinycloud.Balancer) *v1.LoadBalancerStatus {
	mode := v1.LoadBalancerIPModeVIP
	return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: balancer.Address, IPMode: &mode}}}
}

// listBalancers is provider.Capabilities.ListLoadBalancers.
func (c *Cloud) listBalancers(ctx context.Context, clusterName string) ([]provider.LoadBalancer, error) {
	var all []tinycloud.Balancer
	if err := c.client.do(ctx, http.MethodGet, "/balancers", nil, &all); err != nil {
		return nil, err
	}
	ours := []provider.LoadBalancer{}
	for _, balancer := range all {
		if balancer.Tags[tagCluster] != clusterName {
			continue
		}
		namespace, name, _ := strings.Cut(balancer.Tags[tagService], "/")
		ours = append(ours, provider.LoadBalancer{
			Name:       balancer.Name,
			Service:    types.NamespacedName{Namespace: namespace, Name: name},
			ServiceUID: types.UID(balancer.Tags[tagServiceUID]),
			ClusterUID: types.UID(balancer.Tags[tagClusterUID]),
			Status:     *statusOf(balancer),
		})
	}
	return ours, nil
}
