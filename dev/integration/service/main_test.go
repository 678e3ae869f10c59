// Package service tests the service controller against a real control plane, under the rights that Mooring ships.
package service_test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// The control plane is shared: the tests run one after the other, each with Services, nodes, a cloud and a manager of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
)

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		logf.SetLogger(logr.Discard())
		os.Exit(process())
	}
	os.Exit(harness.Main(m, "service", func(started *localcluster.Cluster, administrator *kubernetes.Clientset) {
		cluster, admin = started, administrator
	}))
}
