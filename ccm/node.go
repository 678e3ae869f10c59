package ccm

import (
	"context"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/names"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/internal/controller/node"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// nodeController initializes nodes and keeps them as the cloud says. Its identity is that of the reference's.
func nodeController() Controller {
	return Controller{
		Name:       names.CloudNodeController,
		ClientName: "node-controller",
		Grants: []Grant{
			{Resource: "nodes", Verbs: []string{"get", "list", "watch", "patch"}},
			{Resource: "nodes/status", Verbs: []string{"patch"}},
		},
		New: newNodeController,
	}
}

func newNodeController(_ context.Context, environment Environment) (manager.Runnable, error) {
	instances, err := environment.inventory()
	if err != nil {
		return nil, err
	}
	owners, err := environment.owners()
	if err != nil {
		return nil, err
	}
	return node.New(node.Options{
		Client:                environment.Client,
		LiveReader:            environment.Manager.GetAPIReader(),
		Cache:                 environment.Manager.GetCache(),
		Recorder:              environment.Recorder,
		Inventory:             instances,
		Owners:                owners,
		StatusUpdateFrequency: environment.Settings.NodeStatusUpdateFrequency.Duration,
		Workers:               int(environment.Settings.NodeController.ConcurrentNodeSyncs),
		TracerProvider:        environment.spans,
		Registerer:            environment.Registerer,
		Logger:                environment.Logger,
	})
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
