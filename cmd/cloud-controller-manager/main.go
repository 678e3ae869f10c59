// Command cloud-controller-manager is the daemon with the providers of this project. A vendor copies it and imports another.
package main

import (
	"github.com/mooring-ccm/mooring/ccm"
	_ "github.com/mooring-ccm/mooring/providers/metal"
	_ "github.com/mooring-ccm/mooring/providers/openstack"
	_ "github.com/mooring-ccm/mooring/providers/sim"
)

func main() { ccm.Main() }
