package ccm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/names"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/node"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/version"
	"github.com/mooring-ccm/mooring/provider"
)

// withoutUpdates is what it means that nodes may not be updated.
const withoutUpdates = "nodes that join are patched instead of updated, which costs the API server half as much again"

// nodeController initializes nodes and keeps them as the cloud says. It has the identity of the reference's.
func nodeController() Controller {
	return Controller{
		Name:       names.CloudNodeController,
		ClientName: "node-controller",
		Grants: []Grant{
			{Resource: "nodes", Verbs: []string{"get", "list", "watch", "patch"}},
			{Resource: "nodes/status", Verbs: []string{"patch"}},
			{Resource: "nodes", Verbs: []string{"update"}, Without: withoutUpdates},
			{Resource: "nodes/status", Verbs: []string{"update"}, Without: withoutUpdates},
		},
		New: newNodeController,
	}
}

func newNodeController(ctx context.Context, environment Environment) (manager.Runnable, error) {
	instances, err := environment.inventory()
	if err != nil {
		return nil, err
	}
	whole, err := wholeNodesOf(ctx, environment)
	if err != nil {
		return nil, err
	}
	return node.New(node.Options{
		Client:                environment.Client,
		LiveReader:            environment.Manager.GetAPIReader(),
		LabelManagers:         environment.config.nodeLabelManagers,
		Cache:                 environment.Manager.GetCache(),
		Recorder:              environment.Recorder,
		Inventory:             instances,
		Owners:                environment.owners,
		Whole:                 whole,
		StatusUpdateFrequency: environment.Settings.NodeStatusUpdateFrequency.Duration,
		FullRefreshPeriod:     environment.config.nodeFullRefreshPeriod,
		TracerProvider:        environment.spans,
		Registerer:            environment.Registerer,
		Logger:                environment.Logger,
	})
}

// wholeNodesOf returns what says which nodes the cache holds whole. A dry run plans patches, which name what they change.
func wholeNodesOf(ctx context.Context, environment Environment) (func(*corev1.Node) bool, error) {
	if environment.DryRun {
		return nil, nil
	}
	config := environment.Config
	config.Timeout = kit.WriteTimeout
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the API server's version: %w", err)
	}
	whole := &wholeNodes{server: server, libraries: version.Get().Kubernetes}
	whole.compare(ctx)
	return whole.holds, environment.Manager.Add(whole)
}

// fullRefreshPeriod returns the period of --node-full-refresh-period. Who has said how often nodes are to be looked up, by a flag that the
// reference has, gets just that.
func (o *options) fullRefreshPeriod() time.Duration {
	switch frequency := o.NodeStatusUpdateFrequency.Duration; {
	case o.nodeFullRefreshPeriod > 0:
		return o.nodeFullRefreshPeriod
	case frequency != node.DefaultStatusUpdateFrequency:
		return frequency
	default:
		return node.DefaultFullRefreshPeriod
	}
}

// rulesOf returns the rules by which nodes are ours: what an operator says, or else what the provider says of itself.
func rulesOf(config *config, cloud cloudprovider.Interface) ownership.Rules {
	schemes := config.providerIDSchemes
	if len(schemes) == 0 {
		schemes = provider.CapabilitiesOf(cloud).ProviderIDSchemes
	}
	return ownership.Rules{
		Schemes:      schemes,
		ProviderName: cloud.ProviderName(),
		Selector:     config.nodeSelector,
	}
}
