package ccm_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
	processes "github.com/mooring-ccm/mooring/dev/program"
)

// TestMain makes the test binary the program of a vendor where it was started as one: a plugin, some controllers, and ccm.Main.
func TestMain(m *testing.M) {
	if os.Getenv(processes.SelfEnv) != "" {
		ccm.Main(testControllers()...)
		return
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// shared is the control plane of the tests that leave it as they found it.
var shared struct {
	sync.Mutex
	cluster    *localcluster.Cluster
	kubeconfig string
}

// controlPlane returns a running control plane with the shipped RBAC, and the kubeconfig of the shipped ServiceAccount.
func controlPlane(t *testing.T) (cluster *localcluster.Cluster, kubeconfig string) {
	t.Helper()
	localclustertest.Needed(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		ctx := context.WithoutCancel(t.Context())
		binaries, err := localcluster.Build(ctx, localcluster.BuildOptions{Parts: []localcluster.Part{localcluster.ControlPlane}, Progress: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		if shared.cluster, err = localcluster.Start(ctx, localcluster.Options{Binaries: binaries, Audit: "Metadata"}); err != nil {
			t.Fatal(err)
		}
		shared.kubeconfig = shippedIdentity(t, shared.cluster)
	}
	return shared.cluster, shared.kubeconfig
}

// shippedIdentity applies the shipped RBAC and returns a kubeconfig of its ServiceAccount.
func shippedIdentity(t *testing.T, cluster *localcluster.Cluster) string {
	t.Helper()
	identities := harness.Identity{Account: harness.Mooring.Account, Rights: [][]byte{deploy.ReferenceIdentitiesRBAC}}
	// What is shipped comes last, because both have a role of the same name.
	kubeconfig, err := harnesstest.Of(t, cluster, identities, harness.Mooring).Kubeconfig(t.Context(), harness.Mooring)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func stopShared() error {
	if shared.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), poll.Deadline)
	defer cancel()
	return shared.cluster.Stop(ctx)
}

// cleanUp returns a context for clean-ups, which run after the test's own has ended.
func cleanUp(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
	t.Cleanup(cancel)
	return ctx
}
