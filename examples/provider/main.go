// Command tiny-ccm is the cloud controller manager of a tiny cloud.
package main

import (
	"github.com/mooring-ccm/mooring/ccm"

	_ "example.com/tiny-ccm/tiny" // its init registers the provider
)

func main() { ccm.Main() }
