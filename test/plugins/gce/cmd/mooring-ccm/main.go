// Command mooring-ccm is Mooring's daemon, linked with the plugin of Google's cloud.
package main

import (
	_ "k8s.io/cloud-provider-gcp/providers/gce" // its init registers the provider

	"github.com/mooring-ccm/mooring/ccm"
)

func main() { ccm.Main() }
