// Package cloudconfig_test runs the daemon with the provider metal on a real control plane: with a cloud config that is an object of the API
// server, and with load balancers only.
package cloudconfig_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/osrg/gobgp/v4/api"
	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/deploy"
	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
	// scratch is a directory that is removed at the end.
	scratch string
)

// program builds the daemon as it is shipped, for the first test that needs it, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "cloud-controller-manager")
	return path, managers.BuildDaemon(context.Background(), path, os.Stderr)
})

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "mooring-cloudconfig-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := harness.Main(m, "cloudconfig", func(started *localcluster.Cluster, administrator *kubernetes.Clientset) {
		cluster, admin = started, administrator
		if err := cluster.Apply(context.Background(), deploy.MetalRBAC); err != nil {
			panic(err)
		}
	}, goleak.IgnoreAnyFunction("github.com/eapache/channels.(*InfiniteChannel).infiniteBuffer"),
		goleak.IgnoreAnyFunction("github.com/osrg/gobgp/v4/pkg/server.(*bfdServer).loop")) // GoBGP never ends these
	if err := os.RemoveAll(scratch); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// global is the kind of table that a router's routes are in.
const global = api.TableType_TABLE_TYPE_GLOBAL
