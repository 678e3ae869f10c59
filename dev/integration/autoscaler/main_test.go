// Package autoscaler_test plays the Cluster Autoscaler against the whole daemon on a real control plane, with the simulated cloud and with
// machines that have simulated BMCs, by its protocol over mutual TLS and in the order of its own calls.
package autoscaler_test

import (
	"flag"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// The control plane is shared: the tests run one after the other, each with a cloud, node groups and a manager of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.MainOfWhole(m, "autoscaler", func(started *localcluster.Cluster, administrator *kubernetes.Clientset, _ string) {
		cluster, admin = started, administrator
	}))
}
