package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// The microversions of Nova. From oldest on, a server holds the name of its flavor (Pike, 2017). From wanted on, a list names the
// servers of a cell that is down, which it leaves out before, so that they would seem to be deleted (Stein, 2019).
// https://docs.openstack.org/nova/latest/reference/api-microversion-history.html
const (
	oldestMinor = 47
	wantedMinor = 69
)

// Clients are the clients of the services under one login. They renew the token by themselves.
type Clients struct {
	config   *config.Config
	provider *gophercloud.ProviderClient

	mu       sync.Mutex
	services map[string]*gophercloud.ServiceClient
}

// Config is the config that these clients logged in by.
func (c *Clients) Config() *config.Config { return c.config }

// Compute returns the client of Nova, with the microversion that is agreed on.
func (c *Clients) Compute(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "compute", func(opts gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
		client, err := openstack.NewComputeV2(c.provider, opts)
		if err != nil {
			return nil, err
		}
		client.Microversion, err = negotiate(ctx, client)
		return client, err
	})
}

// Network returns the client of Neutron.
func (c *Clients) Network(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "network", func(opts gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
		client, err := openstack.NewNetworkV2(c.provider, opts)
		if err == nil && strings.HasSuffix(client.Endpoint, "/v2.0/") { // some catalogs have the version in the endpoint
			client.ResourceBase = client.Endpoint
		}
		return client, err
	})
}

// LoadBalancer returns the client of Octavia.
func (c *Clients) LoadBalancer(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "load-balancer", func(opts gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
		return openstack.NewLoadBalancerV2(c.provider, opts)
	})
}

// KeyManager returns the client of Barbican, which not every cloud has.
func (c *Clients) KeyManager(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "key-manager", func(opts gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
		return openstack.NewKeyManagerV1(c.provider, opts)
	})
}

// service returns the client of a service, which it makes once.
func (c *Clients) service(ctx context.Context, kind string, create func(gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)) (*gophercloud.ServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if made := c.services[kind]; made != nil {
		return made, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	made, err := create(gophercloud.EndpointOpts{Region: c.config.Global.Region, Availability: availability(c.config.Global.EndpointType)})
	if err != nil {
		var missing *gophercloud.ErrEndpointNotFound
		if errors.As(err, &missing) {
			err = provider.Terminal(fmt.Errorf("the catalog has no %s endpoint for region %s: %w",
				availability(c.config.Global.EndpointType), c.config.Global.Region, err)) // until the config or the cloud changes
		}
		return nil, fmt.Errorf("finding the service %s: %w", kind, err)
	}
	c.services[kind] = made
	return made, nil
}

// availability returns which endpoints are used, without the ending that older configs have.
func availability(endpointType string) gophercloud.Availability {
	switch strings.TrimSuffix(endpointType, "URL") {
	case "internal":
		return gophercloud.AvailabilityInternal
	case "admin":
		return gophercloud.AvailabilityAdmin
	default:
		return gophercloud.AvailabilityPublic
	}
}

// negotiate returns the microversion that Nova is asked for.
func negotiate(ctx context.Context, client *gophercloud.ServiceClient) (string, error) {
	offered, err := utils.GetSupportedMicroversions(ctx, client)
	if err != nil {
		return "", fmt.Errorf("which microversions Nova has: %w", err)
	}
	if offered.MaxMajor != 2 || offered.MaxMinor < oldestMinor {
		return "", provider.Terminal(fmt.Errorf("the newest microversion of Nova is %d.%d, and 2.%d (Pike) is needed", offered.MaxMajor, offered.MaxMinor, oldestMinor))
	}
	return fmt.Sprintf("2.%d", max(min(offered.MaxMinor, wantedMinor), offered.MinMinor)), nil
}
