package sim

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// newCloud builds the provider as a cloud controller manager does: by its name, from a config file.
func newCloud(t *testing.T, configFile string) *Cloud {
	t.Helper()
	file, err := os.Open(configFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	built, err := cloudprovider.GetCloudProvider(ProviderName, file)
	if err != nil {
		t.Fatal(err)
	}
	cloud := built.(*Cloud)
	stop := make(chan struct{})
	cloud.Initialize(nil, stop)
	t.Cleanup(func() {
		close(stop)
		cloud.client.CloseIdleConnections()
	})
	return cloud
}

func start(t *testing.T, options cloudsim.Options) (*simtest.Cloud, *Cloud) {
	t.Helper()
	simulated := simtest.Start(t, options)
	return simulated, newCloud(t, simulated.ConfigFile)
}

func node(name, providerID string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{ProviderID: providerID}}
}

func TestOffersTheWholeInterface(t *testing.T) {
	_, cloud := start(t, cloudsim.Options{})
	_, lb := cloud.LoadBalancer()
	_, v1i := cloud.Instances()
	_, v2i := cloud.InstancesV2()
	_, zones := cloud.Zones()
	_, routes := cloud.Routes()
	_, clusters := cloud.Clusters()
	if !lb || !v1i || !v2i || !zones || !routes || clusters {
		t.Errorf("load balancer %v, instances %v, v2 %v, zones %v, routes %v, clusters %v", lb, v1i, v2i, zones, routes, clusters)
	}
	if cloud.ProviderName() != "sim" || !cloud.HasClusterID() {
		t.Errorf("name %q, has cluster ID %v", cloud.ProviderName(), cloud.HasClusterID())
	}
	capabilities := provider.CapabilitiesOf(cloud)
	if !capabilities.StandbySafe || capabilities.ListInstances == nil || !cmp.Equal(capabilities.ProviderIDSchemes, []string{"sim"}) {
		t.Errorf("capabilities: %+v", capabilities)
	}
}

// All three ways to an instance tell the same.
func TestMetadata(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	simulated.Change(t, "node-002", func(spec *api.InstanceSpec) {
		spec.Labels = map[string]string{"example.com/rack": "r1"}
		spec.Addresses = append(spec.Addresses, api.Address{Type: api.AddressInternalIP, Address: "2001:db8::2"})
	})
	want := cloudprovider.InstanceMetadata{
		ProviderID: "sim://i-00000002", InstanceType: "sim.small", Zone: "sim-1b", Region: "sim-1",
		AdditionalLabels: map[string]string{"example.com/rack": "r1"},
		NodeAddresses: []v1.NodeAddress{
			{Type: v1.NodeHostName, Address: "node-002"}, {Type: v1.NodeInternalIP, Address: "10.0.0.3"},
			{Type: v1.NodeExternalIP, Address: "100.64.0.3"}, {Type: v1.NodeInternalIP, Address: "2001:db8::2"},
		},
	}
	v2, _ := cloud.InstancesV2()
	for name, n := range map[string]*v1.Node{
		"by name": node("node-002", ""), "by provider ID": node("any", "sim://i-00000002"),
		"provider ID first": node("node-001", "sim://i-00000002"),
	} {
		got, err := v2.InstanceMetadata(t.Context(), n)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var listed []provider.Instance
	err := cloud.Capabilities().ListInstances(t.Context(), func(page []provider.Instance) error {
		listed = append(listed, page...)
		return nil
	})
	if err != nil || len(listed) != 2 {
		t.Fatalf("listed %v, %v", listed, err)
	}
	if diff := cmp.Diff(provider.Instance{NodeName: "node-002", State: provider.InstanceRunning, InstanceMetadata: want}, listed[1]); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
}

func TestExistsAndShutdown(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	simulated.Change(t, "node-002", func(spec *api.InstanceSpec) { spec.Power = api.PowerOff })
	simulated.Delete(t, "node-003")
	v2, _ := cloud.InstancesV2()
	for id, want := range map[string]struct{ exists, shutdown bool }{
		"sim://i-00000001": {true, false}, "sim://i-00000002": {true, true}, "sim://i-00000003": {false, false},
	} {
		exists, err := v2.InstanceExists(t.Context(), node("n", id))
		if err != nil || exists != want.exists {
			t.Errorf("%s exists: %v, %v; want %v", id, exists, err, want.exists)
		}
		shutdown, err := v2.InstanceShutdown(t.Context(), node("n", id))
		if errors.Is(err, cloudprovider.InstanceNotFound) == want.exists || shutdown != want.shutdown {
			t.Errorf("%s is shut down: %v, %v; want %v", id, shutdown, err, want.shutdown)
		}
	}
	if _, err := v2.InstanceMetadata(t.Context(), node("node-003", "")); !errors.Is(err, provider.ErrInstanceNotFound) {
		t.Errorf("metadata by the name of none: %v", err)
	}
}

func TestLegacyInterfaces(t *testing.T) {
	_, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	old, _ := cloud.Instances()
	ctx := t.Context()
	const name, id = types.NodeName("node-001"), "sim://i-00000001"
	if got, err := cloudprovider.GetInstanceProviderID(ctx, cloud, name); err != nil || got != id {
		t.Errorf("provider ID %q, %v; want %s", got, err, id)
	}
	if _, err := cloudprovider.GetInstanceProviderID(ctx, cloud, "none"); err != cloudprovider.InstanceNotFound {
		t.Errorf("provider ID of none: %v; the contract wants InstanceNotFound itself", err)
	}
	byName, err1 := old.NodeAddresses(ctx, name)
	byID, err2 := old.NodeAddressesByProviderID(ctx, id)
	if err1 != nil || err2 != nil || len(byName) != 3 || !cmp.Equal(byName, byID) {
		t.Errorf("addresses %v, %v; %v, %v", byName, err1, byID, err2)
	}
	typeByName, err1 := old.InstanceType(ctx, name)
	typeByID, err2 := old.InstanceTypeByProviderID(ctx, id)
	if err1 != nil || err2 != nil || typeByName != "sim.small" || typeByID != "sim.small" {
		t.Errorf("types %q, %v; %q, %v", typeByName, err1, typeByID, err2)
	}
	exists, err := old.InstanceExistsByProviderID(ctx, "sim://i-00000009")
	if err != nil || exists {
		t.Errorf("one that does not exist: %v, %v", exists, err)
	}
	if down, err := old.InstanceShutdownByProviderID(ctx, id); err != nil || down {
		t.Errorf("shut down: %v, %v", down, err)
	}
	if host, err := old.CurrentNodeName(ctx, "h"); err != nil || host != "h" {
		t.Errorf("current node name %q, %v", host, err)
	}
	if err := old.AddSSHKeyToAllInstances(ctx, "", nil); !errors.Is(err, provider.ErrNotImplemented) {
		t.Errorf("SSH keys: %v", err)
	}
	zones, _ := cloud.Zones()
	want := cloudprovider.Zone{FailureDomain: "sim-1a", Region: "sim-1"}
	zoneByName, err1 := zones.GetZoneByNodeName(ctx, name)
	zoneByID, err2 := zones.GetZoneByProviderID(ctx, id)
	if err1 != nil || err2 != nil || zoneByName != want || zoneByID != want {
		t.Errorf("zones %v, %v; %v, %v", zoneByName, err1, zoneByID, err2)
	}
	if _, err := zones.GetZone(ctx); !errors.Is(err, provider.ErrNotImplemented) {
		t.Errorf("the zone of this process: %v", err)
	}
}

// Whatever goes wrong, an instance is only ever missing when the cloud says so.
func TestErrorsAreTyped(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	v2, _ := cloud.InstancesV2()
	for name, c := range map[string]struct {
		fault    api.Fault
		terminal bool
		retry    time.Duration
		notFound bool
	}{
		"400":       {fault: api.Fault{Mode: api.FaultStatus, Status: 400}, terminal: true},
		"401":       {fault: api.Fault{Mode: api.FaultStatus, Status: 401}, terminal: true},
		"403":       {fault: api.Fault{Mode: api.FaultStatus, Status: 403}, terminal: true},
		"404":       {fault: api.Fault{Mode: api.FaultStatus, Status: 404}, notFound: true},
		"409":       {fault: api.Fault{Mode: api.FaultStatus, Status: 409}},
		"429":       {fault: api.Fault{Mode: api.FaultStatus, Status: 429, RetryAfter: metav1.Duration{Duration: 5 * time.Second}}, retry: 5 * time.Second},
		"500":       {fault: api.Fault{Mode: api.FaultStatus, Status: 500}},
		"503":       {fault: api.Fault{Mode: api.FaultStatus, Status: 503}},
		"empty":     {fault: api.Fault{Mode: api.FaultEmpty}},
		"truncated": {fault: api.Fault{Mode: api.FaultTruncate}},
		"malformed": {fault: api.Fault{Mode: api.FaultMalformed}},
	} {
		t.Run(name, func(t *testing.T) {
			c.fault.Operation, c.fault.Count = api.OpGetInstance, 1
			if err := simulated.Service.AddFault(c.fault); err != nil {
				t.Fatal(err)
			}
			exists, err := v2.InstanceExists(t.Context(), node("n", "sim://i-00000001"))
			if exists || (err == nil) != c.notFound {
				t.Errorf("exists %v, error %v", exists, err)
			}
			if provider.IsTerminal(err) != c.terminal {
				t.Errorf("terminal: %v, want %v: %v", provider.IsTerminal(err), c.terminal, err)
			}
			if retry, _ := provider.RetryAfter(err); retry != c.retry {
				t.Errorf("retry after %s, want %s", retry, c.retry)
			}
		})
	}
}

func TestProviderIDsThatAreNone(t *testing.T) {
	simulated, cloud := start(t, cloudsim.Options{})
	v2, _ := cloud.InstancesV2()
	for _, id := range []string{"aws:///zone/i-1", "sim:///i-1", "sim://", "sim://a/b", "i-1"} {
		exists, err := v2.InstanceExists(t.Context(), node("n", id))
		if exists || !provider.IsTerminal(err) || errors.Is(err, provider.ErrInstanceNotFound) {
			t.Errorf("%s: exists %v, error %v; want a terminal error", id, exists, err)
		}
	}
	if n := simulated.Service.Counts().Received(); n != 0 {
		t.Errorf("%d calls for unknown provider IDs", n)
	}
}

// A proxy, a wrong endpoint or another service answers 404 too. That is not the cloud's word.
func TestForeign404IsNotNotFound(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"plain": http.NotFound,
		"json": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":{"code":"unknownPath"}}`))
		},
		"page with 200": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>log in</html>")) },
		"another instance": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"id":"i-2","name":"b","state":"running"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			cloud := newCloud(t, configFor(t, server.URL, ""))
			v2, _ := cloud.InstancesV2()
			for _, n := range []*v1.Node{node("a", "sim://i-1"), node("a", "")} {
				if exists, err := v2.InstanceExists(t.Context(), n); exists || err == nil || errors.Is(err, provider.ErrInstanceNotFound) {
					t.Errorf("exists %v, error %v; want an error that is not InstanceNotFound", exists, err)
				}
			}
		})
	}
}

func configFor(t *testing.T, endpoint, more string) string {
	t.Helper()
	return tempFile(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nendpoint: %s\ntokenFile: %s\nregion: sim-1\n%s",
		ConfigAPIVersion, ConfigKind, endpoint, tempFile(t, simtest.Token), more))
}

func TestTokenIsReadForEveryCall(t *testing.T) {
	var token atomic.Value
	token.Store(simtest.Token)
	simulated, cloud := start(t, cloudsim.Options{
		Seed: cloudsim.DefaultSeed(1), Token: func() (string, error) { return token.Load().(string), nil },
	})
	v2, _ := cloud.InstancesV2()
	ask := func() error {
		_, err := v2.InstanceMetadata(t.Context(), node("node-001", ""))
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	token.Store("rotated")
	if err := ask(); !provider.IsTerminal(err) {
		t.Errorf("with the old token: %v, want a terminal error", err)
	}
	if err := os.WriteFile(simulated.TokenFile, []byte("rotated\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Errorf("with the new token in the file: %v", err)
	}
	if err := os.WriteFile(simulated.TokenFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), simulated.TokenFile) {
		t.Errorf("with an empty token file: %v, want an error that names the file", err)
	}
}

func TestCertificateAuthority(t *testing.T) {
	simulated := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	server := httptest.NewTLSServer(simulated.Service.Handler())
	t.Cleanup(server.Close)
	authority := tempFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for more, works := range map[string]bool{"": false, "caFile: " + authority + "\n": true} {
		v2, _ := newCloud(t, configFor(t, server.URL, more)).InstancesV2()
		if exists, err := v2.InstanceExists(t.Context(), node("node-001", "")); exists != works || (err == nil) != works {
			t.Errorf("with %q: exists %v, error %v", more, exists, err)
		}
	}
}

func TestEveryCallHasADeadline(t *testing.T) {
	simulated := simtest.Start(t, cloudsim.Options{})
	cloud := newCloud(t, configFor(t, simulated.URL, "requestTimeout: 50ms\n"))
	hang := func() {
		if err := simulated.Service.AddFault(api.Fault{Operation: api.AnyOperation, Mode: api.FaultHang, Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	hang()
	v2, _ := cloud.InstancesV2()
	if _, err := v2.InstanceMetadata(t.Context(), node("a", "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a get that hangs: %v", err)
	}
	hang()
	err := cloud.Capabilities().ListInstances(t.Context(), func([]provider.Instance) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a list that hangs: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v2.InstanceMetadata(canceled, node("a", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context: %v", err)
	}
}

func TestClusterNameOfTheCaller(t *testing.T) {
	simulated := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	cloud := newCloud(t, configFor(t, simulated.URL, ""))
	if cloud.HasClusterID() {
		t.Error("a config without clusterName has a cluster ID")
	}
	routes, _ := cloud.Routes()
	route := &cloudprovider.Route{TargetNode: "node-001", DestinationCIDR: "10.244.0.0/24"}
	if err := routes.CreateRoute(t.Context(), "from-flag", "", route); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"from-flag": 1, "other": 0} {
		if got, err := routes.ListRoutes(t.Context(), name); err != nil || len(got) != want {
			t.Errorf("routes of %s: %v, %v; want %d", name, got, err, want)
		}
	}
}
