package ccm

import (
	"context"

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
	return node.New(node.Options{
		Client:                environment.Client,
		LiveReader:            environment.Manager.GetAPIReader(),
		Cache:                 environment.Manager.GetCache(),
		Recorder:              environment.Recorder,
		Inventory:             instances,
		Ownership:             rules(environment),
		StatusUpdateFrequency: environment.Settings.NodeStatusUpdateFrequency.Duration,
		Workers:               int(environment.Settings.NodeController.ConcurrentNodeSyncs),
		TracerProvider:        environment.spans,
		Registerer:            environment.Registerer,
		Logger:                environment.Logger,
	})
}

// rules say which nodes are ours: by what an operator says, or else by what the provider says of itself.
func rules(environment Environment) ownership.Rules {
	schemes := environment.config.providerIDSchemes
	if len(schemes) == 0 {
		schemes = provider.CapabilitiesOf(environment.Cloud).ProviderIDSchemes
	}
	return ownership.Rules{
		Schemes:      schemes,
		ProviderName: environment.Cloud.ProviderName(),
		Selector:     environment.config.nodeSelector,
	}
}
