// Command cloud-controller-manager is the daemon with the providers and extensions of this project. A vendor copies it and imports another
// provider.
package main

import (
	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/extensions"
	"github.com/mooring-ccm/mooring/extensions/metallb"
	_ "github.com/mooring-ccm/mooring/providers/metal"
	_ "github.com/mooring-ccm/mooring/providers/openstack"
	_ "github.com/mooring-ccm/mooring/providers/sim"
)

func main() { ccm.Main(append(extensions.All(), metallb.All()...)...) }
