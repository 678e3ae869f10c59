package sim

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// ProviderName is the name of the provider, for --cloud-provider.
const ProviderName = "sim"

// callsInFlight is how many calls the provider makes at the same time. It has no state of its own, and the cloud says when that is too much.
const callsInFlight = 80

func init() {
	cloudprovider.RegisterCloudProvider(ProviderName, func(config io.Reader) (cloudprovider.Interface, error) {
		parsed, err := ReadConfig(config)
		if err != nil {
			return nil, err
		}
		return New(parsed)
	})
}

// Cloud is the simulated cloud as a cloud controller manager sees it.
type Cloud struct {
	config Config
	client *api.Client
	// groups is nil without node groups.
	groups *nodeGroups
}

var (
	_ cloudprovider.Interface = &Cloud{}
	_ provider.Capable        = &Cloud{}
)

// New returns the provider for a config that ReadConfig accepts. It makes no call.
func New(config Config) (*Cloud, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if config.CAFile != "" {
		pool, err := readCertificates(config.CAFile)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	// All calls go to one host; without this a burst of calls would open a connection each and drop all but two.
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns
	client, err := api.NewClient(api.ClientOptions{
		Endpoint:   config.Endpoint,
		Token:      api.TokenFile(config.TokenFile),
		HTTPClient: &http.Client{Transport: transport},
		Timeout:    config.RequestTimeout.Duration,
	})
	if err != nil {
		return nil, err
	}
	cloud := &Cloud{config: config, client: client}
	if len(config.NodeGroups) > 0 {
		cloud.groups = newNodeGroups(cloud)
	}
	return cloud, nil
}

// Initialize arranges that connections are closed when the manager stops. The provider needs nothing from the cluster.
func (c *Cloud) Initialize(_ cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	go func() {
		<-stop
		c.client.CloseIdleConnections()
	}()
}

// Capabilities says that the provider lists all its instances, and watches them if the config says so, also on a standby; that
// it lists its load balancers, and that it replaces routes in place; and, if the config says so, that it changes routes by the
// batch and targets by a difference, and that it makes instances of groups on demand.
func (c *Cloud) Capabilities() provider.Capabilities {
	capabilities := provider.Capabilities{
		ProviderIDSchemes: []string{ProviderName},
		ListInstances:     c.listInstances,
		StandbySafe:       true,

		ListLoadBalancers:  c.listBalancers,
		LoadBalancerWrites: balancerWrites,

		ReplaceRoute: routes{c}.replace,
		RouteWrites:  c.config.RouteWrites,
		MaxRoutes:    c.config.MaxRoutes,

		Limits: provider.Limits{InFlight: callsInFlight},
	}
	if c.config.Watch {
		capabilities.WatchInstances = c.watchInstances
	}
	if c.config.RouteBatch > 0 {
		capabilities.ChangeRoutes, capabilities.RouteBatch = routes{c}.change, c.config.RouteBatch
	}
	if c.config.ChangeTargets {
		capabilities.ChangeTargets = loadBalancers{c}.changeTargets
	}
	if c.groups != nil {
		capabilities.NodeGroups = c.groups
	}
	return capabilities
}

// LoadBalancer returns the load balancers of the cloud.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return loadBalancers{c}, true }

// InstancesV2 returns the instances of the cloud.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return instancesV2{c}, true }

// Instances returns the instances of the cloud by the older interface, for callers that know only that.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return instances{c}, true }

// Zones returns the zones of instances, for callers that know only the older interfaces.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return zones{c}, true }

// Clusters returns false: the cloud knows nothing of clusters.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes returns the routes of the cloud.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return routes{c}, true }

// ProviderName returns "sim".
func (c *Cloud) ProviderName() string { return ProviderName }

// HasClusterID reports whether the config names the cluster.
func (c *Cloud) HasClusterID() bool { return c.config.ClusterName != "" }

// cluster is the name that marks what belongs to the cluster: the name in the config, or else the caller's name.
func (c *Cloud) cluster(fromCaller string) string {
	if c.config.ClusterName != "" {
		return c.config.ClusterName
	}
	return fromCaller
}
