// Command daemon is a cloud controller manager for tests: that of this project with the provider of the simulated cloud, which
// misbehaves as only code inside the process can where the cloud asks for it. No code of the product knows of that.
package main

import (
	"github.com/mooring-ccm/mooring/ccm"
	_ "github.com/mooring-ccm/mooring/dev/chaos/plugin"
)

func main() { ccm.Main() }
