package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// pendingPoll is when to look again at a load balancer that the cloud still works on.
const pendingPoll = time.Second

// loadBalancers is cloudprovider.LoadBalancer.
type loadBalancers struct{ *Cloud }

// GetLoadBalancerName returns the name by which the cloud knows the Service's load balancer; it comes from the Service's UID.
func (c loadBalancers) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// GetLoadBalancer returns what the Service's load balancer offers; exists is false if the Service has no load balancer. The status of a
// pending one is empty. A load balancer of another owner is an OwnedByOtherError.
func (c loadBalancers) GetLoadBalancer(ctx context.Context, clusterName string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	observed, err := c.observe(ctx, service)
	if err != nil || observed == nil {
		return nil, false, err
	}
	if err := checkOwner(ownerTags(c.cluster(clusterName), service), observed); err != nil {
		return nil, false, err
	}
	return statusOf(*observed), true, nil
}

// EnsureLoadBalancer creates the Service's load balancer or changes what differs. While the cloud works on it, the error is an
// api.RetryError of k8s.io/cloud-provider. One whose creation failed is deleted and created anew.
func (c loadBalancers) EnsureLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	targets, err := c.targetsOf(ctx, nodes)
	if err != nil {
		return nil, err
	}
	desired, err := desiredBalancer(c.cluster(clusterName), c.config.Region, service, targets)
	if err != nil {
		return nil, &provider.TerminalError{Err: err}
	}
	observed, err := c.observe(ctx, service)
	if err != nil {
		return nil, err
	}
	withClusterUID(desired.Tags, provider.ClusterUID(ctx), observed)
	action, err := planBalancer(desired, observed)
	if err != nil {
		return nil, err
	}
	result, err := c.applyBalancer(ctx, action, desired, observed)
	if err != nil {
		return nil, fmt.Errorf("load balancer %s: %w", desired.Name, balancerError(err))
	}
	if result.State != api.LoadBalancerActive {
		return nil, stillPending(result.Name)
	}
	return statusOf(*result), nil
}

// UpdateLoadBalancer changes the targets of the Service's load balancer, and nothing else.
func (c loadBalancers) UpdateLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) error {
	targets, err := c.targetsOf(ctx, nodes)
	if err != nil {
		return err
	}
	observed, err := c.observe(ctx, service)
	if err != nil {
		return err
	}
	if observed == nil {
		return fmt.Errorf("load balancer %s does not exist", cloudprovider.DefaultLoadBalancerName(service))
	}
	desired := observed.LoadBalancerSpec
	desired.Tags = ownerTags(c.cluster(clusterName), service)
	if err := checkOwner(desired.Tags, observed); err != nil {
		return err
	}
	desired.Tags, desired.Targets = observed.Tags, slices.Compact(slices.Sorted(slices.Values(targets)))
	action, err := planBalancer(desired, observed)
	switch {
	case err != nil:
		return err
	case action == balancerWait:
		return stillPending(observed.Name)
	case action == balancerReplace:
		return fmt.Errorf("load balancer %s: its creation failed: it has to be ensured anew: %s", observed.Name, observed.StateReason)
	case action == balancerKeep:
		return nil
	}
	if _, err := c.applyBalancer(ctx, action, desired, observed); err != nil {
		return fmt.Errorf("load balancer %s: %w", desired.Name, balancerError(err))
	}
	return nil
}

// EnsureLoadBalancerDeleted deletes the Service's load balancer, and succeeds if it does not exist. A load balancer of another owner is an
// OwnedByOtherError.
func (c loadBalancers) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *v1.Service) error {
	observed, err := c.observe(ctx, service)
	if err != nil || observed == nil {
		return err
	}
	if err := checkOwner(ownerTags(c.cluster(clusterName), service), observed); err != nil {
		return err
	}
	if err := c.client.DeleteLoadBalancer(ctx, observed.Name, observed.Generation); err != nil && !isNotFound(err) {
		return fmt.Errorf("load balancer %s: %w", observed.Name, classify(err))
	}
	return nil
}

// observe returns the load balancer with the Service's name, or nil if there is no such load balancer.
func (c loadBalancers) observe(ctx context.Context, service *v1.Service) (*api.LoadBalancer, error) {
	name := cloudprovider.DefaultLoadBalancerName(service)
	observed, err := c.client.GetLoadBalancer(ctx, name)
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("load balancer %s: %w", name, classify(err))
	case observed.Name != name:
		return nil, fmt.Errorf("the cloud was asked for load balancer %s and answered with %s", name, observed.Name)
	default:
		return observed, nil
	}
}

// applyBalancer does what was planned and returns the load balancer as it is then.
func (c loadBalancers) applyBalancer(ctx context.Context, action balancerAction, desired api.LoadBalancerSpec, observed *api.LoadBalancer,
) (*api.LoadBalancer, error) {
	switch action {
	case balancerCreate:
		return c.client.CreateLoadBalancer(ctx, desired)
	case balancerUpdate:
		return c.client.UpdateLoadBalancer(ctx, desired, observed.Generation)
	case balancerReplace:
		if err := c.client.DeleteLoadBalancer(ctx, observed.Name, observed.Generation); err != nil && !isNotFound(err) {
			return nil, err
		}
		return c.client.CreateLoadBalancer(ctx, desired)
	default:
		return observed, nil
	}
}

func stillPending(name string) error {
	return cloudproviderapi.NewRetryError(fmt.Sprintf("load balancer %s is pending", name), pendingPoll)
}

// balancerError is classify for a write. If another client wrote in between, the caller looks again soon.
func balancerError(err error) error {
	if api.HasCode(err, api.CodeConflict) || api.HasCode(err, api.CodePreconditionFailed) {
		return errors.Join(cloudproviderapi.NewRetryError("the load balancer changed in between: "+err.Error(), pendingPoll), err)
	}
	return classify(err)
}

// targetsOf returns the IDs of the nodes' instances. A node of another cloud cannot be a target and is left out; so is one
// without a provider ID that the cloud does not know.
func (c loadBalancers) targetsOf(ctx context.Context, nodes []*v1.Node) ([]string, error) {
	var targets []string
	for _, node := range nodes {
		if node.Spec.ProviderID == "" {
			instance, err := c.instanceByName(ctx, types.NodeName(node.Name))
			if errors.Is(err, provider.ErrInstanceNotFound) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("target %s: %w", node.Name, err)
			}
			targets = append(targets, instance.ID)
			continue
		}
		if !strings.HasPrefix(node.Spec.ProviderID, scheme) {
			continue
		}
		id, err := ParseProviderID(node.Spec.ProviderID)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", node.Name, err)
		}
		targets = append(targets, id)
	}
	return targets, nil
}
