package openstack

import (
	"context"
	"errors"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"golang.org/x/sync/errgroup"
)

// EnvironmentOptions say what network a tenant gets. Name and CIDR are required.
type EnvironmentOptions struct {
	// Name is the name of the network, its subnets and its router.
	Name string
	// CIDR is the subnet for IPv4.
	CIDR string
	// CIDR6 is the subnet for IPv6. Its addresses derive from the addresses of the network cards. Empty means none.
	CIDR6 string
	// Tenant is whose network it is. Empty means Tenant of the cloud.
	Tenant Credentials
}

// Environment are IDs of what a tenant makes servers and load balancers with.
type Environment struct {
	// NetworkName is the name of the tenant's network: addresses of servers are listed by it.
	NetworkName string
	// Network, Subnet, Subnet6 and Router are the tenant's own. Subnet6 is empty without IPv6.
	Network, Subnet, Subnet6, Router string
	// External is the network that floating IPs come from; the router has a gateway in it.
	External string
	// Image, FlavorSmall and FlavorLarge are everybody's.
	Image, FlavorSmall, FlavorLarge string

	clients *Clients // past the proxies
}

// Environment makes a network with a subnet and a router for a tenant. None of its calls, nor those of the methods of Environment, are
// counted or subject to faults.
func (c *Cloud) Environment(ctx context.Context, options EnvironmentOptions) (*Environment, error) {
	if options.Tenant == (Credentials{}) {
		options.Tenant = c.Tenant()
	}
	clients, err := c.direct(ctx, options.Tenant)
	if err != nil {
		return nil, err
	}
	e := &Environment{clients: clients, NetworkName: options.Name}
	if err := errors.Join(e.findImage(ctx), e.findFlavors(ctx), e.findExternal(ctx)); err != nil {
		return nil, fmt.Errorf("prepare the environment of servers: %w", err)
	}
	if err := e.makeNetwork(ctx, options); err != nil {
		return nil, fmt.Errorf("make the network %s: %w", options.Name, err)
	}
	return e, nil
}

// Clients returns clients of the tenant that reach the services past the proxies, as the methods of e do.
func (e *Environment) Clients() *Clients { return e.clients }

func (e *Environment) findImage(ctx context.Context) error {
	pages, err := images.List(e.clients.Image, images.ListOpts{Name: ImageName}).AllPages(ctx)
	if err != nil {
		return err
	}
	found, err := images.ExtractImages(pages)
	if err != nil || len(found) != 1 {
		return errors.Join(err, fmt.Errorf("found %d images %s, want one", len(found), ImageName))
	}
	e.Image = found[0].ID
	return nil
}

func (e *Environment) findFlavors(ctx context.Context) error {
	pages, err := flavors.ListDetail(e.clients.Compute, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	found, err := flavors.ExtractFlavors(pages)
	for _, flavor := range found {
		switch flavor.Name {
		case FlavorSmall:
			e.FlavorSmall = flavor.ID
		case FlavorLarge:
			e.FlavorLarge = flavor.ID
		}
	}
	return err
}

func (e *Environment) findExternal(ctx context.Context) error {
	pages, err := networks.List(e.clients.Network, networks.ListOpts{Name: ExternalNetwork}).AllPages(ctx)
	if err != nil {
		return err
	}
	found, err := networks.ExtractNetworks(pages)
	if err != nil || len(found) != 1 {
		return errors.Join(err, fmt.Errorf("found %d networks %s, want one", len(found), ExternalNetwork))
	}
	e.External = found[0].ID
	return nil
}

func (e *Environment) makeNetwork(ctx context.Context, options EnvironmentOptions) error {
	network, err := networks.Create(ctx, e.clients.Network, networks.CreateOpts{Name: options.Name}).Extract()
	if err != nil {
		return err
	}
	e.Network = network.ID
	router, err := routers.Create(ctx, e.clients.Network, routers.CreateOpts{
		Name: options.Name, GatewayInfo: &routers.GatewayInfo{NetworkID: e.External},
	}).Extract()
	if err != nil {
		return err
	}
	e.Router = router.ID
	e.Subnet, err = e.makeSubnet(ctx, subnets.CreateOpts{Name: options.Name, CIDR: options.CIDR, IPVersion: gophercloud.IPv4})
	if err != nil || options.CIDR6 == "" {
		return err
	}
	e.Subnet6, err = e.makeSubnet(ctx, subnets.CreateOpts{
		Name: options.Name + "-v6", CIDR: options.CIDR6, IPVersion: gophercloud.IPv6, IPv6AddressMode: "slaac", IPv6RAMode: "slaac",
	})
	return err
}

// makeSubnet makes a subnet and connects it to the router.
func (e *Environment) makeSubnet(ctx context.Context, subnet subnets.CreateOpts) (id string, err error) {
	subnet.NetworkID = e.Network
	made, err := subnets.Create(ctx, e.clients.Network, subnet).Extract()
	if err != nil {
		return "", err
	}
	return made.ID, routers.AddInterface(ctx, e.clients.Network, e.Router, routers.AddInterfaceOpts{SubnetID: made.ID}).Err
}

// ServerOptions say what servers to make. Names is required.
type ServerOptions struct {
	// Names are the names of the servers.
	Names []string
	// Zone is where they are. Empty spreads them over all zones.
	Zone string
	// Flavor is an ID. Empty means FlavorSmall.
	Flavor string
	// Metadata and Tags are what each gets.
	Metadata map[string]string
	Tags     []string
	// WithoutAddresses makes servers that no network is connected to, in a tenth of the time.
	WithoutAddresses bool
}

// serversAtOnce is how many servers are made at once: neutron, which has two workers, bounds how fast it goes.
const serversAtOnce = 4

// CreateServers makes servers and returns them, in the order of their names, when all are ACTIVE. A server takes about a second.
func (e *Environment) CreateServers(ctx context.Context, options ServerOptions) ([]servers.Server, error) {
	made := make([]servers.Server, len(options.Names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(serversAtOnce)
	for i, name := range options.Names {
		group.Go(func() error {
			server, err := e.createServer(ctx, name, i, options)
			if err != nil {
				return fmt.Errorf("make the server %s: %w", name, err)
			}
			made[i] = *server
			return nil
		})
	}
	return made, group.Wait()
}

func (e *Environment) createServer(ctx context.Context, name string, number int, options ServerOptions) (*servers.Server, error) {
	create := servers.CreateOpts{
		Name: name, ImageRef: e.Image, FlavorRef: options.Flavor, AvailabilityZone: options.Zone, Metadata: options.Metadata,
		Tags: options.Tags, Networks: []servers.Network{{UUID: e.Network}},
	}
	if create.FlavorRef == "" {
		create.FlavorRef = e.FlavorSmall
	}
	if create.AvailabilityZone == "" {
		create.AvailabilityZone = zones[number%len(zones)]
	}
	if options.WithoutAddresses {
		create.Networks = "none"
	}
	made, err := servers.Create(ctx, e.clients.Compute, create, nil).Extract()
	if err != nil {
		return nil, err
	}
	return e.AwaitServer(ctx, made.ID, "ACTIVE")
}

// AwaitServer waits until a server has a status, and returns it. It fails when the server is in ERROR instead.
func (e *Environment) AwaitServer(ctx context.Context, id, status string) (*servers.Server, error) {
	for {
		server, err := servers.Get(ctx, e.clients.Compute, id).Extract()
		switch {
		case err != nil:
			return nil, err
		case server.Status == status:
			return server, nil
		case server.Status == "ERROR":
			return nil, fmt.Errorf("it is in ERROR: %s", server.Fault.Message)
		}
		if pause(ctx); ctx.Err() != nil {
			return nil, fmt.Errorf("wait until it is %s, it is %s: %w", status, server.Status, context.Cause(ctx))
		}
	}
}

// DeleteServers deletes servers and returns when they are gone.
func (e *Environment) DeleteServers(ctx context.Context, ids ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(serversAtOnce)
	for _, id := range ids {
		group.Go(func() error {
			if err := servers.Delete(ctx, e.clients.Compute, id).ExtractErr(); err != nil {
				return fmt.Errorf("delete the server %s: %w", id, err)
			}
			return e.awaitGone(ctx, id)
		})
	}
	return group.Wait()
}

func (e *Environment) awaitGone(ctx context.Context, id string) error {
	for {
		_, err := servers.Get(ctx, e.clients.Compute, id).Extract()
		if gophercloud.ResponseCodeIs(err, 404) {
			return nil
		}
		if err != nil {
			return err
		}
		if pause(ctx); ctx.Err() != nil {
			return fmt.Errorf("wait until the server %s is gone: %w", id, context.Cause(ctx))
		}
	}
}
