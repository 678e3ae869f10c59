package ccm

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/pflag"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/cloud-provider/names"
	"k8s.io/controller-manager/pkg/features"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/internal/controller/route"
)

// routeFlags are the flags of the route controller that the reference does not have.
type routeFlags struct{ syncs int }

// routeController keeps the routes to the pods of nodes. It has the identity of the reference's.
func routeController() Controller {
	flags := &routeFlags{syncs: route.DefaultWrites}
	return Controller{
		Name:       names.NodeRouteController,
		ClientName: "route-controller",
		AddFlags:   flags.add,
		Validate:   flags.validate,
		Grants: []Grant{
			{Resource: "nodes", Verbs: []string{"get", "list", "watch"}},
			{Resource: "nodes/status", Verbs: []string{"patch"}},
		},
		managerGrants: routeGrants,
		New:           flags.newController,
	}
}

// routeGrants are the rights that making routes takes.
func routeGrants(c *config) []Grant {
	if !c.component.KubeCloudShared.ConfigureCloudRoutes || len(c.clusterCIDRs) == 0 {
		return nil
	}
	return []Grant{{
		Group: networkingv1.GroupName, Resource: "servicecidrs", Verbs: []string{"list"},
		Without: "a route may be made to a pod CIDR that overlaps a range of Services",
	}}
}

func (f *routeFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.syncs, "concurrent-route-syncs", f.syncs,
		"Maximum number of concurrent calls that change routes, capped by the limit that the provider declares.")
}

func (f *routeFlags) validate() []error {
	return []error{positive("concurrent-route-syncs", f.syncs)}
}

// newController builds the controller, or none if the flags say that there are no routes to configure. As in the reference,
// --allocate-node-cidrs does not matter: pod CIDRs may be allocated by kube-controller-manager.
func (f *routeFlags) newController(_ context.Context, environment Environment) (manager.Runnable, error) {
	shared := environment.Settings.KubeCloudShared
	named := slices.Contains(environment.Settings.Generic.Controllers, names.NodeRouteController)
	switch {
	case !shared.ConfigureCloudRoutes:
		environment.Logger.Info("Routes are not configured by this process", "reason", "--configure-cloud-routes=false")
		return nil, nil
	case len(environment.config.clusterCIDRs) == 0 && named:
		return nil, field.Required(field.NewPath("--cluster-cidr"), "--controllers names "+names.NodeRouteController+", which needs it")
	case len(environment.config.clusterCIDRs) == 0:
		environment.Logger.Info("Routes are not configured by this process", "reason", "there is no --cluster-cidr")
		return nil, nil
	case shared.RouteReconciliationPeriod.Duration <= 0:
		return nil, invalid("route-reconciliation-period", shared.RouteReconciliationPeriod.Duration, "must be positive")
	}
	var watching time.Duration
	if utilfeature.DefaultFeatureGate.Enabled(features.CloudControllerManagerWatchBasedRoutesReconciliation) {
		watching = wait.Jitter(environment.Settings.Generic.MinResyncPeriod.Duration, 1) // as the informers of the reference
	}
	return route.New(route.Options{
		Client:       environment.Client,
		Live:         environment.Manager.GetAPIReader(),
		Cache:        environment.Manager.GetCache(),
		Recorder:     environment.Recorder,
		Cloud:        environment.Cloud,
		Owners:       environment.owners,
		ClusterName:  environment.ClusterName,
		ClusterCIDRs: environment.config.clusterCIDRs,
		Period:       shared.RouteReconciliationPeriod.Duration,
		Watching:     watching,
		Lease:        environment.lease,
		Writes:       f.syncs,
		Registerer:   environment.Registerer,
		Logger:       environment.Logger,
	})
}
