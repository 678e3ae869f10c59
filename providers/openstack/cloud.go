package openstack

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
	"github.com/mooring-ccm/mooring/providers/openstack/instances"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia"
	"github.com/mooring-ccm/mooring/providers/openstack/quotas"
	"github.com/mooring-ccm/mooring/providers/openstack/routes"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// ProviderName is the name of the provider, for --cloud-provider. Upstream's plugin has the same: a program has one of the two.
const ProviderName = instances.Scheme

// callsInFlight is how many calls the provider makes at the same time: its reads share one client, which is safe for that.
const callsInFlight = 80

func init() {
	cloudprovider.RegisterCloudProvider(ProviderName, func(from io.Reader) (cloudprovider.Interface, error) {
		source, err := config.Open(from)
		if err != nil {
			return nil, err
		}
		return New(source), nil
	})
}

// Cloud is the provider.
type Cloud struct {
	source    *config.Source
	session   *session.Session
	instances *instances.Instances
	routes    *routes.Routes
	balancers *octavia.Balancers
	quotas    *quotas.Watcher
}

var (
	_ cloudprovider.Interface    = &Cloud{}
	_ cloudprovider.InformerUser = &Cloud{}
	_ provider.Capable           = &Cloud{}
)

// New returns the provider for a config. It makes no call: a manager starts while the cloud is away.
func New(source *config.Source) *Cloud {
	s := session.New(source)
	servers := instances.New(source, s)
	c := &Cloud{source: source, session: s, instances: servers, routes: routes.New(source, s, servers)}
	c.balancers = octavia.New(c.balancerClients, c.balancerOptions)
	c.quotas = quotas.New(s, c.hasBalancers())
	return c
}

// Initialize has the quotas of the project read now and then, and arranges that connections are closed when the manager stops. The provider
// needs nothing from the cluster.
func (c *Cloud) Initialize(_ cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Background().WithName(ProviderName)))
	var reading sync.WaitGroup
	reading.Go(func() { c.quotas.Run(ctx) })
	go func() {
		<-stop
		cancel()
		reading.Wait()
		c.session.CloseIdleConnections()
	}()
}

// SetInformers has routes find nodes by their addresses without a call.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	if c.hasRoutes() {
		c.routes.UseNodes(factory.Core().V1().Nodes().Lister())
	}
}

// Capabilities says that the provider lists all servers of the project, also on a standby, that it follows its config, that it changes
// routes by the batch if there is a router, and that it lists load balancers if it makes them.
//
// It declares how many calls it makes at the same time, and no rate. OpenStack's services have no quota of calls that could be asked for: Nova's list of rates is empty since Newton, and the
// quotas of Nova, Neutron and Octavia are of objects. Package quotas shows those, and an error names the one that is met. The manager's groups
// are one service each already: instances are Nova's, load balancers Octavia's and routes Neutron's.
func (c *Cloud) Capabilities() provider.Capabilities {
	capabilities := provider.Capabilities{
		ProviderIDSchemes: []string{instances.Scheme},
		ListInstances:     c.instances.List,
		StandbySafe:       true,
		RunOnEveryReplica: c.runOnEveryReplica,
		Limits:            provider.Limits{InFlight: callsInFlight},
	}
	if c.hasRoutes() {
		capabilities.ChangeRoutes, capabilities.RouteBatch, capabilities.RouteWrites = c.routes.Change, routes.Batch, 1
		capabilities.ReplaceRoute = c.routes.Replace
		capabilities.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}}
	}
	if c.hasBalancers() {
		capabilities = c.balancers.Capabilities(capabilities)
	}
	return capabilities
}

// hasBalancers reports whether the config has load balancers made. That cannot change while the process runs.
func (c *Cloud) hasBalancers() bool { return c.source.Current().LoadBalancer.Enabled }

// hasRoutes reports whether the config names a router. That cannot change while the process runs.
func (c *Cloud) hasRoutes() bool { return c.source.Current().Route.RouterID != "" }

// runOnEveryReplica follows the cloud config.
func (c *Cloud) runOnEveryReplica(ctx context.Context, replica provider.Replica) error {
	if replica.Registerer != nil {
		if err := c.quotas.Register(replica.Registerer); err != nil {
			return fmt.Errorf("registering the metrics of quotas: %w", err)
		}
	}
	for _, warning := range c.source.Current().Warnings {
		logr.FromContextOrDiscard(ctx).Info("The cloud config has a suspicious setting", "reason", warning)
	}
	return c.source.Run(ctx, replica.ReportConfig)
}

// ProviderName returns ProviderName.
func (c *Cloud) ProviderName() string { return ProviderName }

// HasClusterID returns true, as upstream's manager does: nothing here is found by a tag of the cluster.
func (c *Cloud) HasClusterID() bool { return true }

// InstancesV2 returns the servers of the project.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.instances, true }

// Instances returns nothing: InstancesV2 has taken its place.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones returns nothing: InstancesV2 has taken its place.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters returns nothing.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// LoadBalancer returns load balancers of Octavia, unless the config leaves them to another controller.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.balancers, c.hasBalancers()
}

// Routes returns the routes of the router that the config names.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return c.routes, c.hasRoutes() }
