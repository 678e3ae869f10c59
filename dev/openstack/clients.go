package openstack

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// Names and passwords of who there is. The cloud listens on loopback only.
const (
	adminUser, adminPassword, adminProject       = "admin", "adminpass", "admin"
	serviceUser, servicePassword, serviceProject = "svc", "svcpass", "service"
	tenantUser, tenantPassword, tenantProject    = "k8s", "k8spass", "k8s"
)

// Credentials are how a client logs in: by name and password, or by an application credential.
type Credentials struct {
	// Username, Password and Project are names within the domain Default.
	Username, Password, Project string
	// ApplicationCredentialID and ApplicationCredentialSecret are set in place of these.
	ApplicationCredentialID, ApplicationCredentialSecret string
}

// Admin returns the credentials of the administrator, in a project of its own.
func (c *Cloud) Admin() Credentials {
	return Credentials{Username: adminUser, Password: adminPassword, Project: adminProject}
}

// Tenant returns the credentials of an ordinary user who may do what a cloud controller manager has to do, in the project k8s.
func (c *Cloud) Tenant() Credentials {
	return Credentials{Username: tenantUser, Password: tenantPassword, Project: tenantProject}
}

// options returns the credentials as the library wants them.
func (c Credentials) options(authURL string) gophercloud.AuthOptions {
	if c.ApplicationCredentialID != "" {
		return gophercloud.AuthOptions{
			IdentityEndpoint: authURL, AllowReauth: true,
			ApplicationCredentialID: c.ApplicationCredentialID, ApplicationCredentialSecret: c.ApplicationCredentialSecret,
		}
	}
	return gophercloud.AuthOptions{
		IdentityEndpoint: authURL, AllowReauth: true,
		Username: c.Username, Password: c.Password, TenantName: c.Project, DomainName: domain,
	}
}

// Clients are clients of the services for one user. Those of nova use microversion 2.90.
type Clients struct {
	// ProjectID and UserID are those of the user.
	ProjectID, UserID string

	Identity, Compute, Image, Network, LoadBalancer *gophercloud.ServiceClient
}

const (
	// computeMicroversion has flavors in servers, and what their tenants may know of hosts.
	computeMicroversion = "2.90"
	// requestTimeout bounds one request of Clients.
	requestTimeout = 2 * time.Minute
)

// Clients returns clients that reach the services as tenants do: their calls are counted, and subject to faults.
func (c *Cloud) Clients(ctx context.Context, who Credentials) (*Clients, error) {
	return logIn(ctx, who.options(c.AuthURL()), http.Client{Timeout: requestTimeout}, gophercloud.AvailabilityPublic)
}

// direct returns clients that reach the services past the proxies, so no call is counted and no fault applies.
func (c *Cloud) direct(ctx context.Context, who Credentials) (*Clients, error) {
	client := http.Client{Timeout: requestTimeout, Transport: c.transport()}
	return logIn(ctx, who.options(apis[Identity].url().String()), client, gophercloud.AvailabilityInternal)
}

func logIn(ctx context.Context, options gophercloud.AuthOptions, client http.Client, availability gophercloud.Availability) (*Clients, error) {
	provider, err := openstack.NewClient(options.IdentityEndpoint)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	provider.HTTPClient = client
	if err := openstack.Authenticate(ctx, provider, options); err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	clients := &Clients{}
	if err := clients.identify(provider); err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	endpoint := gophercloud.EndpointOpts{Region: region, Availability: availability}
	for _, service := range []struct {
		client **gophercloud.ServiceClient
		make   func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&clients.Identity, openstack.NewIdentityV3},
		{&clients.Compute, openstack.NewComputeV2},
		{&clients.Image, openstack.NewImageV2},
		{&clients.Network, openstack.NewNetworkV2},
		{&clients.LoadBalancer, openstack.NewLoadBalancerV2},
	} {
		if *service.client, err = service.make(provider, endpoint); err != nil {
			return nil, fmt.Errorf("find the services: %w", err)
		}
	}
	clients.Compute.Microversion = computeMicroversion
	return clients, nil
}

// identify notes who logged in.
func (c *Clients) identify(provider *gophercloud.ProviderClient) error {
	result, ok := provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return fmt.Errorf("got %T for a token", provider.GetAuthResult())
	}
	project, err := result.ExtractProject()
	if err != nil {
		return err
	}
	user, err := result.ExtractUser()
	if err != nil {
		return err
	}
	c.UserID = user.ID
	if project != nil {
		c.ProjectID = project.ID
	}
	return nil
}

// CreateApplicationCredential makes credentials with the rights of a user of Tenant or Admin, which may be deleted apart from the user.
func (c *Cloud) CreateApplicationCredential(ctx context.Context, who Credentials, name string) (Credentials, error) {
	clients, err := c.direct(ctx, who)
	if err != nil {
		return Credentials{}, err
	}
	made, err := applicationcredentials.Create(ctx, clients.Identity, clients.UserID, applicationcredentials.CreateOpts{Name: name}).Extract()
	if err != nil {
		return Credentials{}, fmt.Errorf("create the application credential %s: %w", name, err)
	}
	return Credentials{ApplicationCredentialID: made.ID, ApplicationCredentialSecret: made.Secret}, nil
}

// DeleteApplicationCredential revokes credentials: keystone answers logins with 404 from then on.
func (c *Cloud) DeleteApplicationCredential(ctx context.Context, owner, which Credentials) error {
	clients, err := c.direct(ctx, owner)
	if err != nil {
		return err
	}
	if err := applicationcredentials.Delete(ctx, clients.Identity, clients.UserID, which.ApplicationCredentialID).ExtractErr(); err != nil {
		return fmt.Errorf("delete an application credential: %w", err)
	}
	return nil
}

// CloudConf returns the section Global of a cloud.conf, as the cloud provider of OpenStack reads it, followed by other sections.
func (c *Cloud) CloudConf(who Credentials, sections ...string) string {
	lines := []string{"[Global]", "auth-url=" + c.AuthURL(), "region=" + region}
	if who.ApplicationCredentialID != "" {
		lines = append(lines, "application-credential-id="+who.ApplicationCredentialID, "application-credential-secret="+who.ApplicationCredentialSecret)
	} else {
		lines = append(lines, "username="+who.Username, "password="+who.Password, "tenant-name="+who.Project, "domain-name="+domain)
	}
	return strings.Join(append(lines, sections...), "\n") + "\n"
}

// CloudsYAML returns a clouds.yaml with the clouds "k8s", for the tenant, and "admin".
func (c *Cloud) CloudsYAML() string {
	entry := func(name string, who Credentials) string {
		return fmt.Sprintf(`  %s:
    auth:
      auth_url: %s
      username: %s
      password: %s
      project_name: %s
      user_domain_name: %s
      project_domain_name: %s
    region_name: %s
    identity_api_version: 3
`, name, c.AuthURL(), who.Username, who.Password, who.Project, domain, domain, region)
	}
	return "clouds:\n" + entry("k8s", c.Tenant()) + entry("admin", c.Admin())
}
