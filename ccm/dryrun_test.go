package ccm

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/internal/dryrun"
)

// TestADryRunTakesNoLease, neither its own nor the one of migrated controllers, and no identity but its own.
func TestADryRunTakesNoLease(t *testing.T) {
	c := &config{kubeconfig: &rest.Config{}, migrated: map[string]bool{"route-controller": true}}
	c.component.Generic.LeaderElection.LeaderElect = true
	c.component.Generic.LeaderMigrationEnabled = true
	c.component.KubeCloudShared.UseServiceAccountCredentials = true
	given := c.kubeconfig
	c.writeNothing()
	if generic := c.component.Generic; generic.LeaderElection.LeaderElect || generic.LeaderMigrationEnabled || len(c.migrated) > 0 {
		t.Errorf("it would take a lease: %+v, migrated %v", generic, c.migrated)
	}
	if c.component.KubeCloudShared.UseServiceAccountCredentials {
		t.Error("it would make ServiceAccounts")
	}
	if given.WrapTransport != nil {
		t.Error("the config of others was changed")
	}
	var sent bool
	transport := c.kubeconfig.WrapTransport(roundTripper(func(*http.Request) (*http.Response, error) { sent = true; return nil, nil }))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://example.com/api/v1/nodes/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.RoundTrip(request); err == nil || sent {
		t.Errorf("a write was sent: %t, error %v, want %v", sent, err, dryrun.ErrReadOnly)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
