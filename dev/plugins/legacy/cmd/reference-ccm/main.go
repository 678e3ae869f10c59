// Command reference-ccm is the reference cloud controller manager with the plugins that left Kubernetes' own tree.
package main

import (
	_ "k8s.io/legacy-cloud-providers/azure" // their inits register the providers
	_ "k8s.io/legacy-cloud-providers/vsphere"

	"github.com/mooring-ccm/mooring/dev/reference"
)

func main() { reference.Main() }
