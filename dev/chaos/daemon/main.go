// Command daemon is a cloud controller manager for tests: this project's manager with the provider of the simulated cloud. Where the cloud asks for
// it, the provider misbehaves as only code inside the process can. The product has no code for that.
package main

import (
	"github.com/mooring-ccm/mooring/ccm"
	_ "github.com/mooring-ccm/mooring/dev/chaos/plugin"
)

func main() { ccm.Main() }
