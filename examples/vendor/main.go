// Command mycloud-ccm is the cloud controller manager of a vendor: a plugin whose constructor takes more than a cloud config, with flags
// and defaults of its own, two controllers of the vendor's, an extension of Mooring's, and without a controller that this cloud has no use for.
package main

import (
	"context"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/names"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/extensions/servingcertificate"

	"example.com/mycloud-ccm/mycloud"
	"example.com/mycloud-ccm/racks"
	"example.com/mycloud-ccm/tags"
)

func main() { ccm.Main(options()...) }

// options are what makes the manager this vendor's.
func options() []ccm.Option {
	settings := &mycloud.Settings{}
	build := func(_ context.Context, environment ccm.ProviderEnvironment) (cloudprovider.Interface, error) {
		config, err := environment.Config()
		if err != nil {
			return nil, err
		}
		if config != nil { // --cloud-config is given
			defer func() { _ = config.Close() }()
		}
		return mycloud.New(config, *settings, environment.Informers.Core().V1().Nodes().Lister())
	}
	return []ccm.Option{
		ccm.WithProvider(mycloud.ProviderName, build),
		ccm.WithFlags(ccm.Flags{Section: "mycloud", Add: settings.AddFlags, Validate: settings.Validate}),
		ccm.WithDefaults(map[string]string{"cloud-provider": mycloud.ProviderName, "concurrent-node-syncs": "4"}),
		ccm.RemoveController(names.NodeRouteController),
		ccm.WithController(racks.Controller()),
		ccm.WithController(tags.Controller()),
		ccm.WithController(servingcertificate.Controller()),
	}
}
