// Package route tests the route controller against a real control plane, under the rights that Mooring ships.
package route_test

import (
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// The control plane is shared: the tests run one after the other, each with nodes, a cloud and a manager of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
)

// What every test of this package uses of the harness goes by its short names here.
var (
	must       = harness.Must
	eventually = harness.Eventually
)

// asProgram is the environment variable that makes this executable the cloud controller manager, with its arguments.
const asProgram = "MOORING_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ccm.Main()
		return
	}
	os.Exit(harness.Main(m, "route", func(started *localcluster.Cluster, administrator *kubernetes.Clientset) {
		cluster, admin = started, administrator
	}))
}
