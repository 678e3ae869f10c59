// Package tiny is the provider of a tiny cloud. docs/how-to/write-a-provider.md of Mooring leads through it.
package tiny

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// ProviderName is the value of --cloud-provider, and the scheme of the provider IDs.
const ProviderName = "tiny"

func init() {
	cloudprovider.RegisterCloudProvider(ProviderName, func(config io.Reader) (cloudprovider.Interface, error) {
		return New(config)
	})
}

// Cloud is the provider.
type Cloud struct {
	client client
}

// New builds the provider from a cloud config, {"endpoint": "https://..."}. It does not call the cloud.
func New(config io.Reader) (*Cloud, error) {
	if config == nil {
		return nil, errors.New("--cloud-config is required")
	}
	var fields struct {
		Endpoint string `json:"endpoint"`
	}
	decoder := json.NewDecoder(config)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("decoding JSON: %w", err)
	}
	if fields.Endpoint == "" {
		return nil, errors.New("endpoint: required")
	}
	return &Cloud{client{endpoint: fields.Endpoint, http: &http.Client{}}}, nil
}

// Capabilities says what the provider offers beyond cloudprovider.Interface.
func (c *Cloud) Capabilities() provider.Capabilities {
	return provider.Capabilities{
		ProviderIDSchemes:  []string{ProviderName},
		ListInstances:      c.listInstances,
		StandbySafe:        true,
		ListLoadBalancers:  c.listBalancers,
		LoadBalancerWrites: 4,
		Limits:             provider.Limits{InFlight: 16},
	}
}

// Initialize implements cloudprovider.Interface. A provider that runs something of its own starts it here, until stop is closed.
func (c *Cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// ProviderName implements cloudprovider.Interface.
func (c *Cloud) ProviderName() string { return ProviderName }

// HasClusterID implements cloudprovider.Interface.
func (c *Cloud) HasClusterID() bool { return true }

// InstancesV2 implements cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// LoadBalancer implements cloudprovider.Interface.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return balancers{c}, true }

// Instances implements cloudprovider.Interface: InstancesV2 takes its place.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones implements cloudprovider.Interface: InstancesV2 says the zone.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Routes implements cloudprovider.Interface: the cloud has none.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// Clusters implements cloudprovider.Interface: the cloud knows nothing of clusters.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }
