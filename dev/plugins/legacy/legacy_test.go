// Package legacy_test shows that the plugins that left Kubernetes' own tree, which know no InstancesV2, do the same under Mooring
// as under the reference cloud controller manager. Both are in one program.
package legacy_test

import (
	"testing"

	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

// denial is why Mooring asks more often before it deletes a node.
const denial = "a node is only deleted when its instance has been denied twice, and while the cloud affirms others"

// monitoring has both managers look after nodes as soon as something happens to them: they would leave the reference's alone for
// five seconds, and Mooring's until they are two minutes old.
var (
	monitoring        = []string{"--node-monitor-period=1s"}
	mooringMonitoring = []string{"--node-deletion-min-age=0s", "--node-deletion-min-denial-time=0s"}
)

func TestScenarios(t *testing.T) {
	reference := compare.Build(t, "./cmd/reference-ccm")
	mooring := compare.BuildMooring(t, "k8s.io/legacy-cloud-providers/azure", "k8s.io/legacy-cloud-providers/vsphere")
	t.Run("azure", func(t *testing.T) {
		scenario := azureScenario()
		scenario.Reference, scenario.Mooring = reference, mooring
		compare.Run(t, scenario)
	})
	t.Run("vsphere", func(t *testing.T) {
		scenario := vsphereScenario(compare.Build(t, "github.com/vmware/govmomi/vcsim"))
		scenario.Reference, scenario.Mooring = reference, mooring
		compare.Run(t, scenario)
	})
}
