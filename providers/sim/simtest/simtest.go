// Package simtest runs a simulated cloud inside a test: the real service on a real port, with clients and a cloud config.
package simtest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// The tokens of a Cloud, and the name of the cluster in its config.
const (
	Token       = "test-token"
	AdminToken  = "test-admin-token"
	ClusterName = "test"
)

// Cloud is a simulated cloud that runs until the test ends.
type Cloud struct {
	// Service is the cloud itself: knobs, faults and counts without a call.
	Service *cloudsim.Service
	// URL is its endpoint.
	URL string
	// Client and Admin call it over HTTP.
	Client *api.Client
	Admin  *api.Admin
	// TokenFile holds the token and ConfigFile is a cloud config for the provider.
	TokenFile, ConfigFile string
}

// Start starts a cloud. The options' state file and tokens are filled in when they are empty.
func Start(t testing.TB, options cloudsim.Options) *Cloud {
	t.Helper()
	dir := t.TempDir()
	c := &Cloud{TokenFile: filepath.Join(dir, "token"), ConfigFile: filepath.Join(dir, "cloud.yaml")}
	write(t, c.TokenFile, Token)
	if options.StateFile == "" {
		options.StateFile = filepath.Join(dir, "state.db")
	}
	if options.Token == nil {
		options.Token = cloudsim.StaticToken(Token)
	}
	if options.AdminToken == nil {
		options.AdminToken = cloudsim.StaticToken(AdminToken)
	}
	var err error
	if c.Service, err = cloudsim.Open(options); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(c.Service.Handler())
	t.Cleanup(func() {
		c.Service.ClearFaults()
		server.Close()
		if err := c.Service.Close(); err != nil {
			t.Errorf("closing the simulated cloud: %v", err)
		}
	})
	c.URL = server.URL
	c.connect(t, server)
	write(t, c.ConfigFile, fmt.Sprintf("apiVersion: sim.mooring.dev/v1alpha1\nkind: CloudConfig\nendpoint: %s\ntokenFile: %s\nclusterName: %s\nregion: %s\n",
		c.URL, c.TokenFile, ClusterName, cloudsim.DefaultRegion))
	return c
}

func (c *Cloud) connect(t testing.TB, server *httptest.Server) {
	t.Helper()
	options := api.ClientOptions{Endpoint: server.URL, HTTPClient: server.Client(), Token: cloudsim.StaticToken(Token)}
	var err error
	if c.Client, err = api.NewClient(options); err != nil {
		t.Fatal(err)
	}
	options.Token = cloudsim.StaticToken(AdminToken)
	if c.Admin, err = api.NewAdmin(options); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Create creates an instance.
func (c *Cloud) Create(t testing.TB, spec api.InstanceSpec) *api.Instance {
	t.Helper()
	instance, err := c.Client.CreateInstance(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return instance
}

// Change changes the instance of that name, as an operator in the cloud's console would.
func (c *Cloud) Change(t testing.TB, name string, change func(*api.InstanceSpec)) *api.Instance {
	t.Helper()
	instance, err := c.Client.GetInstanceByName(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	spec := instance.InstanceSpec
	change(&spec)
	changed, err := c.Client.UpdateInstance(t.Context(), instance.ID, spec, instance.Generation)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// Delete deletes the instance of that name.
func (c *Cloud) Delete(t testing.TB, name string) {
	t.Helper()
	instance, err := c.Client.GetInstanceByName(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.DeleteInstance(t.Context(), instance.ID, 0); err != nil {
		t.Fatal(err)
	}
}

// Eventually polls a condition until it holds, and fails the test when it does not within a minute. Clean-ups of a test may call it.
func Eventually(t testing.TB, what string, condition func(ctx context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), 10*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) { return condition(ctx), nil })
	if err != nil {
		t.Fatalf("%s: not within a minute", what)
	}
}
