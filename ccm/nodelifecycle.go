package ccm

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/cloud-provider/names"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/internal/controller/nodelifecycle"
)

// deletionLogSuffix makes the name of the Lease that records deletions of nodes from the Lease of the leader election: cloud
// controller managers that share a cluster have different ones.
const deletionLogSuffix = "-node-deletions"

// nodeLifecycleFlags are the values of the flags that the reference does not have.
type nodeLifecycleFlags struct {
	settings nodelifecycle.Settings
}

// nodeLifecycleController deletes nodes whose instances are gone, and taints those whose instances are shut down. Its
// identity is the reference's.
func nodeLifecycleController() Controller {
	flags := &nodeLifecycleFlags{settings: nodelifecycle.DefaultSettings()}
	return Controller{
		Name:       names.CloudNodeLifecycleController,
		ClientName: "node-controller",
		AddFlags:   flags.add,
		Validate:   flags.validate,
		Grants: []Grant{
			{Resource: "nodes", Verbs: []string{"get", "list", "watch", "patch", "delete"}},
			{Resource: "nodes/status", Verbs: []string{"patch"}},
		},
		managerGrants: flags.deletionLogGrants,
		New:           flags.newController,
	}
}

func (f *nodeLifecycleFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.settings.Confirmations, "node-deletion-confirmations", f.settings.Confirmations,
		"How often, in distinct observations, the cloud has to deny a node's instance before the node is deleted.")
	flags.DurationVar(&f.settings.MinAge, "node-deletion-min-age", f.settings.MinAge,
		"How old a node has to be that waits for its initialization before the cloud is asked whether its instance is gone.")
	flags.DurationVar(&f.settings.MinDenialTime, "node-deletion-min-denial-time", f.settings.MinDenialTime,
		"For how long the cloud has to deny a node's instance, from the first to the last of those observations, before the node is deleted. "+
			"It does not apply to nodes whose removal was announced or confirmed.")
	flags.Var(&f.settings.Limit, "node-deletion-limit",
		"How many nodes may be deleted within any "+f.settings.Window.String()+" because their instances are gone: a number, or a share of the "+
			"nodes that this process looks after. A share is at least ten nodes, but then not more than half of all. Nodes whose removal was announced do "+
			"not count. 100% is no limit.")
}

func (f *nodeLifecycleFlags) validate() []error {
	var errs []error
	if f.settings.Confirmations < 1 {
		errs = append(errs, invalid("node-deletion-confirmations", f.settings.Confirmations, "must be at least 1"))
	}
	return append(errs, notNegative("node-deletion-min-age", f.settings.MinAge), notNegative("node-deletion-min-denial-time", f.settings.MinDenialTime))
}

// deletionLogGrants are for the record of deletions, which is the manager's affair like the lease of the leader election.
func (f *nodeLifecycleFlags) deletionLogGrants(c *config) []Grant {
	if f.settings.Limit.Off() {
		return nil
	}
	election := c.component.Generic.LeaderElection
	return recordGrants(election.ResourceNamespace, election.ResourceName+deletionLogSuffix, "")
}

func (f *nodeLifecycleFlags) newController(_ context.Context, environment Environment) (manager.Runnable, error) {
	settings := environment.Settings.NodeLifecycleController
	if err := positive("node-monitor-period", settings.NodeMonitorPeriod.Duration); err != nil {
		return nil, err
	}
	instances, err := environment.inventory()
	if err != nil {
		return nil, err
	}
	leases, err := coordinationv1client.NewForConfig(environment.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("client for the record of node deletions: %w", err)
	}
	election := environment.Settings.Generic.LeaderElection
	return nodelifecycle.New(nodelifecycle.Options{
		Client:    environment.Client,
		Cache:     environment.Manager.GetCache(),
		Recorder:  environment.Recorder,
		Inventory: instances,
		Owners:    environment.owners,
		DeletionLog: &nodelifecycle.DeletionLog{
			Leases: leases, Namespace: election.ResourceNamespace, Name: election.ResourceName + deletionLogSuffix,
			DryRun: environment.config.dryRun != nil,
		},
		Settings:   f.settings,
		Period:     settings.NodeMonitorPeriod.Duration,
		Registerer: environment.Registerer,
		Logger:     environment.Logger,
	}), nil
}
