package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
	"golang.org/x/sync/singleflight"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// The microversions of Nova. From oldest on, a server holds the name of its flavor (Pike, 2017). From wanted on, a list names the
// servers of a cell that is down, which it leaves out before, so they would seem to be deleted (Stein, 2019).
// https://docs.openstack.org/nova/latest/reference/api-microversion-history.html
const (
	oldestMinor = 47
	wantedMinor = 69
)

// Clients are the clients of the services under one login. They renew the token by themselves.
type Clients struct {
	config   *config.Config
	provider *gophercloud.ProviderClient

	finding  singleflight.Group // by the service, so one that does not answer delays no other
	mu       sync.Mutex
	services map[string]*gophercloud.ServiceClient
}

// Config is the config that these clients logged in by.
func (c *Clients) Config() *config.Config { return c.config }

// ProjectID returns the project that the login is for.
func (c *Clients) ProjectID() (string, error) {
	result, scoped := c.provider.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	})
	if !scoped {
		return "", errNoProject
	}
	project, err := result.ExtractProject()
	if err == nil && (project == nil || project.ID == "") {
		err = errNoProject
	}
	if err != nil {
		return "", fmt.Errorf("finding the project of the token: %w", err)
	}
	return project.ID, nil
}

// errNoProject is a token that names no project, as of a login by a token that a file has.
var errNoProject = errors.New("the token names no project")

// Compute returns the client of Nova, with the microversion that is agreed on.
func (c *Clients) Compute(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "compute", func(ctx context.Context, opts gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
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
	return c.service(ctx, "network", func(_ context.Context, opts gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
		client, err := openstack.NewNetworkV2(c.provider, opts)
		if err == nil && strings.HasSuffix(client.Endpoint, "/v2.0/") { // some catalogs have the version in the endpoint
			client.ResourceBase = client.Endpoint
		}
		return client, err
	})
}

// LoadBalancer returns the client of Octavia.
func (c *Clients) LoadBalancer(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "load-balancer", func(_ context.Context, opts gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
		return openstack.NewLoadBalancerV2(c.provider, opts)
	})
}

// KeyManager returns the client of Barbican, which not every cloud has.
func (c *Clients) KeyManager(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "key-manager", func(_ context.Context, opts gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
		return openstack.NewKeyManagerV1(c.provider, opts)
	})
}

// creator makes the client of a service.
type creator func(context.Context, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)

// service returns the client of a service, which it makes once. It returns when the context ends: what is asked of the service meanwhile is
// for everybody who waits, and ends with the deadline of requests.
func (c *Clients) service(ctx context.Context, kind string, create creator) (*gophercloud.ServiceClient, error) {
	if made := c.made(kind); made != nil {
		return made, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := c.finding.DoChan(kind, func() (any, error) {
		if made := c.made(kind); made != nil { // another caller has found it meanwhile
			return made, nil
		}
		return c.find(context.WithoutCancel(ctx), kind, create)
	})
	select {
	case result := <-found:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*gophercloud.ServiceClient), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("finding the service %s: %w", kind, ctx.Err())
	}
}

func (c *Clients) made(kind string) *gophercloud.ServiceClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.services[kind]
}

// find makes the client of a service, and keeps it.
func (c *Clients) find(ctx context.Context, kind string, create creator) (*gophercloud.ServiceClient, error) {
	made, err := create(ctx, gophercloud.EndpointOpts{Region: c.config.Global.Region, Availability: availability(c.config.Global.EndpointType)})
	if err != nil {
		var missing *gophercloud.ErrEndpointNotFound
		if errors.As(err, &missing) {
			err = provider.Terminal(fmt.Errorf("the catalog has no %s endpoint for region %s: %w",
				availability(c.config.Global.EndpointType), c.config.Global.Region, err)) // until the config or the cloud changes
		}
		return nil, fmt.Errorf("finding the service %s: %w", kind, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
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
