//go:build race

package conformance_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// racing is a provider that remembers, without a lock, which node it was asked for last.
type racing struct {
	*asks
	last string
}

func (r *racing) InstancesV2() (cloudprovider.InstancesV2, bool) { return r, true }

func (r *racing) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	r.last = node.Name
	return r.asks.InstanceMetadata(ctx, node)
}

// TestDataRacesAreFound tries a provider with a data race in a process of its own: the race detector fails the test that meets it.
func TestDataRacesAreFound(t *testing.T) {
	const inside = "MOORING_TEST_RACING"
	if os.Getenv(inside) != "" {
		found, _ := observed(t, &racing{asks: &asks{}})
		t.Logf("declares %q: %s", found["reads-at-once"].Declare, found["reads-at-once"].Says)
		return
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDataRacesAreFound$", "-test.v")
	command.Env = append(os.Environ(), inside+"=1")
	output, err := command.CombinedOutput()
	if want := `declares "": one at a time: the race detector found`; err == nil || !strings.Contains(string(output), want) {
		t.Errorf("error %v; the output lacks %q:\n%s", err, want, output)
	}
}
