// Command reference-ccm is the reference cloud controller manager with the plugin of Google's cloud.
package main

import (
	"github.com/mooring-ccm/mooring/test/reference"
	_ "k8s.io/cloud-provider-gcp/providers/gce"
)

func main() { reference.Main() }
