// Command mycloud-ccm is the cloud controller manager of a vendor: a plugin that registers itself, and one controller of the
// vendor's own.
package main

import (
	"github.com/mooring-ccm/mooring/ccm"

	_ "example.com/mycloud-ccm/mycloud" // its init registers the provider
	"example.com/mycloud-ccm/racks"
)

func main() { ccm.Main(ccm.WithController(racks.Controller())) }
