// Package route tests the route controller against a real control plane, under the rights that Mooring ships.
package route_test

import (
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/program"
)

// The control plane is shared: the tests run one after the other, each with nodes, a cloud and a manager of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
)

func TestMain(m *testing.M) {
	if os.Getenv(program.SelfEnv) != "" {
		ccm.Main()
		return
	}
	os.Exit(harness.Main(m, "route", func(started *localcluster.Cluster, administrator *kubernetes.Clientset) {
		cluster, admin = started, administrator
	}))
}
