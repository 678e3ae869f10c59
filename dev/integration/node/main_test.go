// Package node tests the node controller against a real control plane, under the rights that Mooring ships.
package node_test

import (
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// The control plane is shared: the tests run one after the other, each with nodes and a manager of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, "node", func(started *localcluster.Cluster, administrator *kubernetes.Clientset) {
		cluster, admin = started, administrator
	}))
}
