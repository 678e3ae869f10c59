// Package migration moves a cluster from the reference cloud controller manager to Mooring and back, with the same plugin, the same
// cloud config and the same flags, and shows what that does to load balancers, routes and nodes.
package migration_test

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/mooring-ccm/mooring/ccm"
	_ "github.com/mooring-ccm/mooring/providers/sim" // registers the plugin of both
)

// asProgram is the environment variable that makes this executable one of the two managers, with its arguments.
const asProgram = "MOORING_TEST_AS_PROGRAM"

// The managers, as values of asProgram.
const (
	reference = "reference"
	mooring   = "mooring"
)

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case mooring:
		ccm.Main()
	case reference:
		referenceMain()
	default:
		os.Exit(m.Run())
	}
}

// referenceMain is the sample main of k8s.io/cloud-provider with all its controllers.
func referenceMain() {
	all, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("unable to initialize command options: %v", err)
	}
	command := app.NewCloudControllerManagerCommand(all, referenceCloud, app.DefaultInitFuncConstructors, names.CCMControllerAliases(),
		cliflag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

func referenceCloud(config *config.CompletedConfig) cloudprovider.Interface {
	wanted := config.ComponentConfig.KubeCloudShared.CloudProvider
	cloud, err := cloudprovider.InitCloudProvider(wanted.Name, wanted.CloudConfigFile)
	if err != nil || cloud == nil {
		klog.Fatalf("cloud provider %q could not be initialized: %v", wanted.Name, err)
	}
	return cloud
}
