package openstack

import (
	"context"
	"fmt"
)

// tenantRoles are the roles of a user who has servers, networks and load balancers.
var tenantRoles = []string{"member", "reader", "load-balancer_member"}

// CreateTenant makes a project with a user of its own, both with that name, who may do what the user of Tenant may: tests that share a cloud do
// not see each other's servers and load balancers then, and have quotas of their own.
func (c *Cloud) CreateTenant(ctx context.Context, name string) (Credentials, error) {
	admin, err := c.direct(ctx, c.Admin())
	if err != nil {
		return Credentials{}, err
	}
	records := keystoneRecords{ctx: ctx, client: admin.Identity, roles: map[string]string{}}
	records.findRoles()
	project := records.project(name)
	records.assign(records.user(name, tenantPassword, project), project, tenantRoles...)
	if records.err != nil {
		return Credentials{}, fmt.Errorf("make the tenant %s: %w", name, records.err)
	}
	return Credentials{Username: name, Password: tenantPassword, Project: name}, nil
}
