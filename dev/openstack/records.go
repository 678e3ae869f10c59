package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/aggregates"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// Names of what every cloud has.
const (
	// FlavorSmall and FlavorLarge are flavors: 1 and 4 processors.
	FlavorSmall, FlavorLarge = "m1.small", "m1.large"
	// ImageName is the image that every tenant may boot.
	ImageName = "empty"
	// ExternalNetwork is the network that floating IPs come from, with the subnet 203.0.113.0/24.
	ExternalNetwork = "public"
	externalCIDR    = "203.0.113.0/24"
	externalGateway = "203.0.113.1"
)

// register gives keystone the users, and the services with their addresses in the room.
func (c *Cloud) register(ctx context.Context) error {
	options := c.Admin().options(apis[Identity].url().String())
	provider, err := openstack.NewClient(options.IdentityEndpoint)
	if err != nil {
		return err
	}
	provider.HTTPClient = http.Client{Timeout: requestTimeout, Transport: c.transport()}
	if err := openstack.Authenticate(ctx, provider, options); err != nil {
		return fmt.Errorf("log in to keystone: %w", err)
	}
	client, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{Region: region, Availability: gophercloud.AvailabilityInternal})
	if err != nil {
		return err
	}
	if err := registerUsers(ctx, client); err != nil {
		return fmt.Errorf("register users: %w", err)
	}
	for service, api := range apis {
		if service == Identity {
			continue // it is there since keystone was set up
		}
		if err := registerService(ctx, client, service, api); err != nil {
			return fmt.Errorf("register %s: %w", api.name, err)
		}
	}
	return nil
}

func registerService(ctx context.Context, client *gophercloud.ServiceClient, service Service, api api) error {
	made, err := services.Create(ctx, client, services.CreateOpts{Type: string(service), Name: api.name}).Extract()
	if err != nil {
		return err
	}
	for _, availability := range []gophercloud.Availability{gophercloud.AvailabilityInternal, gophercloud.AvailabilityAdmin, gophercloud.AvailabilityPublic} {
		_, err := endpoints.Create(ctx, client, endpoints.CreateOpts{
			ServiceID: made.ID, Availability: availability, Region: region, URL: api.url().String(),
		}).Extract()
		if err != nil {
			return err
		}
	}
	return nil
}

// registerUsers makes the user of the services and the tenant, and gives everybody their roles.
func registerUsers(ctx context.Context, client *gophercloud.ServiceClient) error {
	records := keystoneRecords{ctx: ctx, client: client, roles: map[string]string{}}
	records.findRoles()
	for _, name := range []string{"service", "load-balancer_member", "load-balancer_admin"} {
		records.role(name)
	}
	admin, adminIn := records.findUser(adminUser), records.findProject(adminProject)
	services := records.project(serviceProject)
	records.assign(records.user(serviceUser, servicePassword, services), services, "admin", "service")
	tenant := records.project(tenantProject)
	records.assign(records.user(tenantUser, tenantPassword, tenant), tenant, tenantRoles...)
	records.assign(admin, tenant, "admin")
	records.assign(admin, adminIn, "load-balancer_admin")
	return records.err
}

// keystoneRecords makes records until one fails, and does nothing from then on.
type keystoneRecords struct {
	ctx    context.Context
	client *gophercloud.ServiceClient
	roles  map[string]string // ID by name
	err    error
}

// domainID is the ID of the domain "Default".
const domainID = "default"

func (k *keystoneRecords) findRoles() {
	pages, err := roles.List(k.client, nil).AllPages(k.ctx)
	if err != nil {
		k.err = errors.Join(k.err, err)
		return
	}
	all, err := roles.ExtractRoles(pages)
	for _, role := range all {
		k.roles[role.Name] = role.ID
	}
	k.err = errors.Join(k.err, err)
}

func (k *keystoneRecords) role(name string) {
	if k.err != nil || k.roles[name] != "" {
		return
	}
	made, err := roles.Create(k.ctx, k.client, roles.CreateOpts{Name: name}).Extract()
	if k.err = err; err == nil {
		k.roles[name] = made.ID
	}
}

func (k *keystoneRecords) project(name string) (id string) {
	if k.err != nil {
		return ""
	}
	made, err := projects.Create(k.ctx, k.client, projects.CreateOpts{Name: name, DomainID: domainID}).Extract()
	if k.err = err; err != nil {
		return ""
	}
	return made.ID
}

func (k *keystoneRecords) user(name, password, project string) (id string) {
	if k.err != nil {
		return ""
	}
	made, err := users.Create(k.ctx, k.client, users.CreateOpts{
		Name: name, Password: password, DomainID: domainID, DefaultProjectID: project,
	}).Extract()
	if k.err = err; err != nil {
		return ""
	}
	return made.ID
}

func (k *keystoneRecords) findUser(name string) (id string) {
	if k.err != nil {
		return ""
	}
	pages, err := users.List(k.client, users.ListOpts{Name: name}).AllPages(k.ctx)
	if k.err = err; err != nil {
		return ""
	}
	found, err := users.ExtractUsers(pages)
	if k.err = err; err != nil || len(found) != 1 {
		k.err = errors.Join(err, fmt.Errorf("found %d users %s, want one", len(found), name))
		return ""
	}
	return found[0].ID
}

func (k *keystoneRecords) findProject(name string) (id string) {
	if k.err != nil {
		return ""
	}
	pages, err := projects.List(k.client, projects.ListOpts{Name: name}).AllPages(k.ctx)
	if k.err = err; err != nil {
		return ""
	}
	found, err := projects.ExtractProjects(pages)
	if k.err = err; err != nil || len(found) != 1 {
		k.err = errors.Join(err, fmt.Errorf("found %d projects %s, want one", len(found), name))
		return ""
	}
	return found[0].ID
}

func (k *keystoneRecords) assign(user, project string, names ...string) {
	for _, name := range names {
		if k.err == nil {
			k.err = roles.Assign(k.ctx, k.client, k.roles[name], roles.AssignOpts{UserID: user, ProjectID: project}).ExtractErr()
		}
	}
}

// furnish makes what only an administrator may make: zones, flavors, the external network, an image for everybody.
func (c *Cloud) furnish(ctx context.Context) error {
	if _, err := c.room.Run(ctx, manage("nova.cmd.manage", "nova.conf", "cell_v2", "discover_hosts")); err != nil {
		return err
	}
	clients, err := c.direct(ctx, c.Admin())
	if err != nil {
		return err
	}
	for _, zone := range zones {
		made, err := aggregates.Create(ctx, clients.Compute, aggregates.CreateOpts{Name: zone, AvailabilityZone: zone}).Extract()
		if err != nil {
			return fmt.Errorf("make the zone %s: %w", zone, err)
		}
		if _, err := aggregates.AddHost(ctx, clients.Compute, made.ID, aggregates.AddHostOpts{Host: zone}).Extract(); err != nil {
			return fmt.Errorf("add a host to the zone %s: %w", zone, err)
		}
	}
	for _, flavor := range []flavors.CreateOpts{
		{Name: FlavorSmall, VCPUs: 1, RAM: 512, Disk: new(1)},
		{Name: FlavorLarge, VCPUs: 4, RAM: 8192, Disk: new(20)},
	} {
		if _, err := flavors.Create(ctx, clients.Compute, flavor).Extract(); err != nil {
			return fmt.Errorf("make the flavor %s: %w", flavor.Name, err)
		}
	}
	if err := makeExternalNetwork(ctx, clients.Network); err != nil {
		return fmt.Errorf("make the external network: %w", err)
	}
	return makeImage(ctx, clients.Image)
}

// flatNetwork is a network of a provider. The library's own options always name a segmentation ID, which a flat network has none of.
type flatNetwork string

// ToNetworkCreateMap returns the body of the request.
func (n flatNetwork) ToNetworkCreateMap() (map[string]any, error) {
	return map[string]any{"network": map[string]any{
		"name": string(n), "router:external": true, "provider:network_type": "flat", "provider:physical_network": "external",
	}}, nil
}

func makeExternalNetwork(ctx context.Context, client *gophercloud.ServiceClient) error {
	network, err := networks.Create(ctx, client, flatNetwork(ExternalNetwork)).Extract()
	if err != nil {
		return err
	}
	return subnets.Create(ctx, client, subnets.CreateOpts{
		NetworkID: network.ID, Name: ExternalNetwork, IPVersion: gophercloud.IPv4, CIDR: externalCIDR, GatewayIP: new(externalGateway),
		EnableDHCP: new(false),
	}).Err
}

func makeImage(ctx context.Context, client *gophercloud.ServiceClient) error {
	image, err := images.Create(ctx, client, images.CreateOpts{
		Name: ImageName, DiskFormat: "raw", ContainerFormat: "bare", Visibility: new(images.ImageVisibilityPublic),
	}).Extract()
	if err == nil {
		err = imagedata.Upload(ctx, client, image.ID, strings.NewReader("nothing runs")).ExtractErr()
	}
	if err != nil {
		return fmt.Errorf("make the image: %w", err)
	}
	return nil
}
