package cloudsim_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// refusal returns what the cloud said, or fails the test when it did not refuse.
func refusal(t *testing.T, err error) *api.Error {
	t.Helper()
	var answer *api.Error
	if !errors.As(err, &answer) {
		t.Fatalf("error is %v, want a refusal of the cloud", err)
	}
	return answer
}

// fields are the fields that a refusal names.
func fields(t *testing.T, err error) []string {
	t.Helper()
	var names []string
	for _, f := range refusal(t, err).Fields {
		names = append(names, f.Field)
	}
	return names
}

func TestInstanceLife(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{})
	created := cloud.Create(t, cloudsim.DefaultInstance(1))
	want := &api.Instance{
		InstanceSpec: cloudsim.DefaultInstance(1), ID: "i-00000001", Region: "sim-1", State: api.InstanceRunning, Generation: 1,
	}
	want.Addresses[1].Family, want.Addresses[2].Family = api.IPv4, api.IPv4
	ignoreTime := cmpopts.IgnoreFields(api.Instance{}, "CreatedAt")
	if diff := cmp.Diff(want, created, ignoreTime); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	_, err := cloud.Client.CreateInstance(t.Context(), cloudsim.DefaultInstance(1))
	if answer := refusal(t, err); answer.Status != http.StatusConflict || answer.ExistingID != created.ID {
		t.Errorf("a second instance of that name: %+v", answer)
	}

	spec := created.InstanceSpec
	spec.MachineType, spec.Zone, spec.Power = cloudsim.TypeLarge, "sim-1c", api.PowerOff
	changed, err := cloud.Client.UpdateInstance(t.Context(), created.ID, spec, created.Generation)
	if err != nil {
		t.Fatal(err)
	}
	if changed.Generation != 2 || changed.State != api.InstanceStopped || changed.MachineType != cloudsim.TypeLarge {
		t.Errorf("changed: %+v", changed)
	}
	_, err = cloud.Client.UpdateInstance(t.Context(), created.ID, spec, created.Generation)
	if !api.HasCode(err, api.CodePreconditionFailed) {
		t.Errorf("a write to an old generation: %v", err)
	}
	err = cloud.Client.DeleteInstance(t.Context(), created.ID, created.Generation)
	if !api.HasCode(err, api.CodePreconditionFailed) {
		t.Errorf("a deletion of an old generation: %v", err)
	}
	byName, err := cloud.Client.GetInstanceByName(t.Context(), spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed, byName); diff != "" {
		t.Errorf("by name (-changed +got):\n%s", diff)
	}

	if err := cloud.Client.DeleteInstance(t.Context(), created.ID, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.Client.GetInstance(t.Context(), created.ID); !api.HasCode(err, api.CodeNotFound) {
		t.Errorf("get after deletion: %v", err)
	}
	if again := cloud.Create(t, cloudsim.DefaultInstance(1)); again.ID == created.ID {
		t.Errorf("ID %s was given twice", again.ID)
	}
}

func TestInstanceErrorsAllAtOnce(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{})
	_, err := cloud.Client.CreateInstance(t.Context(), api.InstanceSpec{
		Name: "UPPER", Zone: "nowhere", Power: "half",
		Labels: map[string]string{"": "x", "long": strings.Repeat("v", 256)},
		Addresses: []api.Address{
			{Type: api.AddressInternalIP, Address: "10.0.0.1"},
			{Type: api.AddressInternalIP, Address: "10.0.0.1"},
			{Type: api.AddressInternalIP, Address: "10.0.0.300"},
			{Type: api.AddressExternalIP, Address: "2001:db8::1", Family: api.IPv4},
			{Type: api.AddressHostname, Address: "a b", Family: api.IPv4},
			{Type: "Pigeon", Address: "x"},
		},
	})
	want := []string{
		"name", "zone", "machineType", "power", "labels[]", "labels[long]", "addresses[1]", "addresses[2].address",
		"addresses[3].family", "addresses[4].address", "addresses[4].family", "addresses[5].type",
	}
	if diff := cmp.Diff(want, fields(t, err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if message := err.Error(); !strings.Contains(message, `zone: "nowhere": must be one of sim-1a, sim-1b, sim-1c`) {
		t.Errorf("the message does not say what would be right: %s", message)
	}
}

func TestLoadBalancerErrorsAllAtOnce(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{})
	_, err := cloud.Client.CreateLoadBalancer(t.Context(), api.LoadBalancerSpec{
		Name: "a.b", Region: "moon", IPFamilies: []api.IPFamily{"IPv4", "IPv4", "IPv5"}, Addressing: "mail", IPMode: "X",
		RequestedAddresses: []string{"1.2.3.4", "198.18.0.1", "198.18.0.2", "nothing"},
		SourceRanges:       []string{"10.0.0.1/8"},
		Listeners: []api.Listener{
			{Protocol: "TCP", Port: 80, TargetPort: 30080}, {Protocol: "TCP", Port: 80, TargetPort: 0}, {Protocol: "X", Port: 70000, TargetPort: 1},
		},
		Targets: []string{"i-1", "i-1"}, HealthCheck: &api.HealthCheck{Path: "x"},
	})
	want := []string{
		"name", "region", "ipFamilies[1]", "ipFamilies[2]", "requestedAddresses[0]", "requestedAddresses[1]", "requestedAddresses[2]",
		"requestedAddresses[3]", "addressing", "ipMode", "sourceRanges[0]", "listeners[1].targetPort", "listeners[1].port",
		"listeners[2].protocol", "listeners[2].port", "targets[0]", "targets[1]", "targets[1]", "healthCheck.port", "healthCheck.path",
	}
	if diff := cmp.Diff(want, fields(t, err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestRouteLife(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	spec := api.RouteSpec{Cluster: "one", DestinationCIDR: "10.244.1.0/24", TargetInstance: "i-00000001"}
	first, err := cloud.Client.CreateRoute(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	again, err := cloud.Client.CreateRoute(t.Context(), spec)
	if err != nil || again.ID != first.ID {
		t.Errorf("the same route again: %+v, %v; want %s", again, err, first.ID)
	}
	other := spec
	other.TargetInstance = "i-00000002"
	if _, err := cloud.Client.CreateRoute(t.Context(), other); !api.HasCode(err, api.CodeConflict) {
		t.Errorf("a route to another target: %v", err)
	}
	other.Cluster = "two"
	if _, err := cloud.Client.CreateRoute(t.Context(), other); err != nil {
		t.Errorf("the same CIDR in another cluster: %v", err)
	}
	moved, err := cloud.Client.ReplaceRoute(t.Context(), first.ID, api.RouteSpec{
		Cluster: "one", DestinationCIDR: "10.244.1.0/24", TargetInstance: "i-00000002",
	})
	if err != nil || moved.ID != first.ID || moved.TargetName != "node-002" {
		t.Errorf("a route whose target was replaced: %+v, %v", moved, err)
	}
	if _, err := cloud.Client.ReplaceRoute(t.Context(), first.ID, spec); err != nil {
		t.Fatal(err)
	}
	_, err = cloud.Client.ReplaceRoute(t.Context(), first.ID, api.RouteSpec{
		Cluster: "two", DestinationCIDR: "10.244.2.0/24", TargetInstance: "i-9",
	})
	if diff := cmp.Diff([]string{"targetInstance", "cluster", "destinationCIDR"}, fields(t, err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if _, err := cloud.Client.ReplaceRoute(t.Context(), "r-9", spec); !api.HasCode(err, api.CodeNotFound) {
		t.Errorf("replacing a route that does not exist: %v", err)
	}
	cloud.Delete(t, "node-001")
	var listed []api.Route
	err = cloud.Client.ListRoutes(t.Context(), "one", func(page []api.Route) error { listed = append(listed, page...); return nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Route{{RouteSpec: spec, ID: first.ID, Blackhole: true, CreatedAt: first.CreatedAt}}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("routes of the cluster after its target is gone (-want +got):\n%s", diff)
	}
	if err := cloud.Client.DeleteRoute(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if err := cloud.Client.DeleteRoute(t.Context(), first.ID); !api.HasCode(err, api.CodeNotFound) {
		t.Errorf("deleting it again: %v", err)
	}
	_, err = cloud.Client.CreateRoute(t.Context(), api.RouteSpec{Cluster: "A B", DestinationCIDR: "10.0.0.1/8", TargetInstance: "i-9"})
	if diff := cmp.Diff([]string{"cluster", "destinationCIDR", "targetInstance"}, fields(t, err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestLoadBalancerLife(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	spec := api.LoadBalancerSpec{
		Name: "web", Region: cloudsim.DefaultRegion, Tags: map[string]string{"owner": "a"}, IPFamilies: []api.IPFamily{api.IPv6, api.IPv4},
		Listeners: []api.Listener{{Protocol: api.ProtocolTCP, Port: 80, TargetPort: 30080}}, Targets: []string{"i-00000002", "i-00000001"},
	}
	created, err := cloud.Client.CreateLoadBalancer(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2001:db8:1b::2", "198.18.0.3"}, created.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"i-00000001", "i-00000002"}, created.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	changed := created.LoadBalancerSpec
	changed.Targets, changed.Addressing = nil, api.AddressingHostname
	updated, err := cloud.Client.UpdateLoadBalancer(t.Context(), changed, created.Generation)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(created.Addresses, updated.Addresses); diff != "" {
		t.Errorf("a change moved the addresses (-before +after):\n%s", diff)
	}
	if updated.Hostname != "web.lb.sim-1.sim.example" || updated.Generation != 2 {
		t.Errorf("updated: %+v", updated)
	}
	changed.Region = "sim-2"
	if _, err := cloud.Client.UpdateLoadBalancer(t.Context(), changed, 0); !api.HasCode(err, api.CodeInvalid) {
		t.Errorf("moving to another region: %v", err)
	}
	spec.Name, spec.Tags, spec.RequestedAddresses = "other", nil, []string{"198.18.0.3"}
	if _, err := cloud.Client.CreateLoadBalancer(t.Context(), spec); !api.HasCode(err, api.CodeConflict) {
		t.Errorf("requesting a used address: %v", err)
	}
	spec.RequestedAddresses = []string{"198.18.9.9"}
	other, err := cloud.Client.CreateLoadBalancer(t.Context(), spec)
	if err != nil || other.Addresses[1] != "198.18.9.9" {
		t.Errorf("requesting a free address: %+v, %v", other, err)
	}
	var owned []string
	err = cloud.Client.ListLoadBalancers(t.Context(), map[string]string{"owner": "a"}, func(page []api.LoadBalancer) error {
		for _, l := range page {
			owned = append(owned, l.Name)
		}
		return nil
	})
	if diff := cmp.Diff([]string{"web"}, owned); diff != "" || err != nil {
		t.Errorf("listed by tag (-want +got), error %v:\n%s", err, diff)
	}
}

// What does not fit and what is not valid is told together, each field once.
func TestMisfitsAndInvalidFieldsAtOnce(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{})
	body := `{"name": 7, "zone": "moon", "machineType": "sim.small", "machineType": "sim.large", "power": "half", "size": 1}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, cloud.URL+api.PathInstances, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+simtest.Token)
	request.Header.Set("Content-Type", "application/json")
	defer http.DefaultClient.CloseIdleConnections()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer api.ErrorBody
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range answer.Error.Fields {
		got = append(got, f.Field)
	}
	if diff := cmp.Diff([]string{"name", "machineType", "size", "zone", "power"}, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{})
	for name, c := range map[string]struct {
		method, path, token, contentType, ifMatch, body string
		status                                          int
		code                                            api.ErrorCode
	}{
		"no token":          {path: api.PathInstances, status: 401, code: api.CodeUnauthenticated},
		"wrong token":       {path: api.PathInstances, token: "x", status: 401, code: api.CodeUnauthenticated},
		"unknown path":      {path: "/v1/volumes", token: simtest.Token, status: 404, code: api.CodeUnknownPath},
		"wrong method":      {method: "PATCH", path: api.PathInstances, token: simtest.Token, status: 405, code: api.CodeMethodNotAllowed},
		"unknown parameter": {path: api.PathInstances + "?limits=1", token: simtest.Token, status: 400, code: api.CodeInvalid},
		"bad limit":         {path: api.PathInstances + "?limit=0", token: simtest.Token, status: 400, code: api.CodeInvalid},
		"bad page token":    {path: api.PathInstances + "?pageToken=x", token: simtest.Token, status: 400, code: api.CodeInvalid},
		"no content type":   {method: "POST", path: api.PathInstances, token: simtest.Token, body: "{}", status: 400, code: api.CodeInvalid},
		"no JSON": {
			method: "POST", path: api.PathInstances, token: simtest.Token, contentType: "application/json", body: "{", status: 400, code: api.CodeInvalid,
		},
		"too long": {
			method: "POST", path: api.PathInstances, token: simtest.Token, contentType: "application/json",
			body: strings.Repeat(" ", 1<<20+1), status: 413, code: api.CodeTooLarge,
		},
		"bad etag":         {method: "DELETE", path: api.PathInstances + "/i-1", token: simtest.Token, ifMatch: "3", status: 400, code: api.CodeInvalid},
		"admin as client":  {path: api.PathAdminCounts, token: simtest.Token, status: 401, code: api.CodeUnauthenticated},
		"client as admin":  {path: api.PathInstances, token: simtest.AdminToken, status: 401, code: api.CodeUnauthenticated},
		"unknown instance": {path: api.PathInstances + "/i-9", token: simtest.Token, status: 404, code: api.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), c.method, cloud.URL+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			for header, value := range map[string]string{"Authorization": "Bearer " + c.token, "Content-Type": c.contentType, "If-Match": c.ifMatch} {
				if value != "" {
					request.Header.Set(header, value)
				}
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer http.DefaultClient.CloseIdleConnections()
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != c.status || !strings.Contains(string(body), `"code":"`+string(c.code)+`"`) {
				t.Errorf("got %d %s, want %d %s", response.StatusCode, body, c.status, c.code)
			}
		})
	}
	counts := cloud.Service.Counts()
	got := counts.Operations[api.OpListInstances]
	if diff := cmp.Diff(api.CallCount{Received: 6, Unauthenticated: 3, Failed: 3}, got); diff != "" {
		t.Errorf("counts of lists (-want +got):\n%s", diff)
	}
}
