// Package provider tries the provider openstack on OpenStack's own services: by the rules that hold for every provider, and as a part of the
// daemon on a real control plane. The tests share one cloud; each has a tenant of its own.
package provider

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/openstack/openstacktest"
)

const (
	// timeout bounds what the tests do to the cloud besides what they try.
	timeout = 5 * time.Minute
	// eventually bounds a wait for what takes seconds on a quiet machine, and many times as long on one that is busy.
	eventually = 4 * time.Minute
	// lookAgain is between two looks at the services, which are busy with what is waited for.
	lookAgain = 250 * time.Millisecond
)

var shared openstacktest.Shared

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(shared.Main(m))
}

// tenancy is a tenant of the shared cloud, with a network, a router, and credentials for a manager.
type tenancy struct {
	cloud       *openstack.Cloud
	tenant      openstack.Credentials
	environment *openstack.Environment
	credentials openstack.Credentials
}

// newTenancy makes a tenant with servers in the network "nodes".
func newTenancy(t *testing.T, name string) tenancy {
	t.Helper()
	cloud := shared.Cloud(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	tenant, err := cloud.CreateTenant(ctx, name)
	must.NoError(t, err)
	environment, err := cloud.Environment(ctx, openstack.EnvironmentOptions{
		Name: "nodes", CIDR: "192.168.0.0/22", CIDR6: "fd00:1::/64", Tenant: tenant,
	})
	must.NoError(t, err)
	credentials, err := cloud.CreateApplicationCredential(ctx, tenant, "manager")
	must.NoError(t, err)
	return tenancy{cloud, tenant, environment, credentials}
}
