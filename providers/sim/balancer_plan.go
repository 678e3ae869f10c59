package sim

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// balancerAction is what brings a load balancer from what it is to what it shall be.
type balancerAction string

const (
	balancerKeep    balancerAction = "keep"
	balancerCreate  balancerAction = "create"
	balancerUpdate  balancerAction = "update"
	balancerReplace balancerAction = "replace"
	// balancerWait is for one that the cloud still works on: it cannot be changed, and has no addresses yet.
	balancerWait balancerAction = "wait"
)

// planBalancer decides. Observed is nil if there is no load balancer. A load balancer of another owner is an error: it is neither taken
// over nor changed.
func planBalancer(desired api.LoadBalancerSpec, observed *api.LoadBalancer) (balancerAction, error) {
	if observed == nil {
		return balancerCreate, nil
	}
	if err := checkOwner(desired.Tags, observed); err != nil {
		return "", err
	}
	switch {
	case observed.State == api.LoadBalancerPending:
		return balancerWait, nil
	case observed.State == api.LoadBalancerFailed:
		return balancerReplace, nil
	case equality.Semantic.DeepEqual(desired, observed.LoadBalancerSpec):
		return balancerKeep, nil
	default:
		return balancerUpdate, nil
	}
}

// OwnedByOtherError says that the load balancer of that name belongs to another cluster or another Service.
type OwnedByOtherError struct {
	// Name is the load balancer.
	Name string
	// Cluster and ServiceUID are those of its tags, or empty if it has no such tags.
	Cluster, ServiceUID string
}

// Error says whose it is.
func (e *OwnedByOtherError) Error() string {
	return fmt.Sprintf("load balancer %s belongs to cluster %q and service %q, not to this one: it is left alone; "+
		"delete it, or correct its tags %s and %s", e.Name, e.Cluster, e.ServiceUID, TagCluster, TagServiceUID)
}

func checkOwner(tags map[string]string, observed *api.LoadBalancer) error {
	if observed.Tags[TagCluster] == tags[TagCluster] && observed.Tags[TagServiceUID] == tags[TagServiceUID] {
		return nil
	}
	return &OwnedByOtherError{Name: observed.Name, Cluster: observed.Tags[TagCluster], ServiceUID: observed.Tags[TagServiceUID]}
}
