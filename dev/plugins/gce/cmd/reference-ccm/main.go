// Command reference-ccm is the reference cloud controller manager with the plugin of Google's cloud.
package main

import (
	_ "k8s.io/cloud-provider-gcp/providers/gce"

	"github.com/mooring-ccm/mooring/dev/reference"
)

func main() { reference.Main() }
