package autoscaler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	_ "github.com/mooring-ccm/mooring/providers/metal" // Registers the provider "metal".
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// The machines of the node group of a rack: one that is on, one that sleeps and one that sleeps, too, whose BMC can be made deaf.
const rack, neighbor, sleeper, deaf = "rack", "neighbor", "sleeper", "deaf"

// bmc is the management controller of one machine, and keeps what it was told.
type bmc struct {
	*redfishsim.Service
	mu     sync.Mutex
	resets []string
}

// ServeHTTP is http.Handler.
func (b *bmc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/Actions/ComputerSystem.Reset") {
		body, err := io.ReadAll(r.Body)
		asked := struct{ ResetType string }{}
		if err = errors.Join(err, json.Unmarshal(body, &asked)); err != nil {
			asked.ResetType = err.Error()
		}
		b.mu.Lock()
		b.resets = append(b.resets, asked.ResetType)
		b.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	b.Service.ServeHTTP(w, r)
}

// told returns the resets that the BMC was told, in order and without repetitions: a command whose effect is not seen in time is repeated.
func (b *bmc) told() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Compact(slices.Clone(b.resets))
}

// await waits until the BMC was told just that, and a machine that it is not deaf for is as it says.
func (b *bmc) await(t *testing.T, power string, told ...string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the machine is %s, and was told %v", power, told), func(context.Context) error {
		if got := b.told(); b.Power("1") != power || !slices.Equal(got, told) {
			return fmt.Errorf("it is %s, and was told %v", b.Power("1"), got)
		}
		return nil
	})
}

// awaitReadings waits until the BMC was asked some times more how its machine is.
func (b *bmc) awaitReadings(t *testing.T, more int) {
	t.Helper()
	const reading = "GET /redfish/v1/Systems/1"
	before := b.Requests()[reading]
	poll.Until(t, "the BMC is asked", func(context.Context) error {
		if now := b.Requests()[reading]; now < before+more {
			return fmt.Errorf("%d times since %d", now, before)
		}
		return nil
	})
}

func idOf(machine string) string {
	return "metal://" + uuid.NewSHA1(uuid.NameSpaceDNS, []byte(machine)).String() // as the node agent has its systemUUID
}

// newRack starts a manager for the machines of a rack, with the rights that ship for them, and an autoscaler.
func newRack(t *testing.T) (*fixture, map[string]*bmc) {
	t.Helper()
	must.NoError(t, cluster.Apply(t.Context(), deploy.MetalRBAC))
	t.Cleanup(func() { must.NoError(t, cluster.Apply(context.WithoutCancel(t.Context()), deploy.RBAC)) })
	harness.GrantNodeGroupRecord(t, admin)
	var text strings.Builder
	fmt.Fprintf(&text, `apiVersion: %s
kind: %s
power: {interval: 1s}
nodeGroups:
- {name: %s, machines: {zones: [rack-1]}, capacity: {cpu: "8", memory: 32Gi, pods: "110"}, minCycleTime: 0s}
inventory:
  defaults: {zone: rack-1, bmc: {credentials: {username: admin, passwordFile: password}}}
  machines:
`, config.APIVersion, config.CloudConfigKind, rack)
	all := map[string]*bmc{}
	for i, name := range []string{neighbor, sleeper, deaf} {
		id := strings.TrimPrefix(idOf(name), "metal://")
		power := redfishsim.Off
		if name == neighbor {
			power = redfishsim.On
		}
		all[name] = &bmc{Service: redfishsim.New("admin", "pass", redfishsim.System{ID: "1", UUID: id, Power: power})}
		server := httptest.NewServer(all[name])
		t.Cleanup(server.Close)
		fmt.Fprintf(&text, "  - {name: %s, systemUUID: %s, addresses: [{address: 10.9.0.%d}], bmc: {redfish: {endpoint: %q, insecureSkipVerify: true, systemID: \"1\"}}}\n",
			name, id, i+1, server.URL)
	}
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("pass"), 0o600))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text.String()), 0o600))
	return startFixture(t, nil, "--cloud-provider=metal", "--cloud-config="+filepath.Join(dir, "config.yaml")), all
}
