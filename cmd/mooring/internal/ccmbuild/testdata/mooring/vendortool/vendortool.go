// Package vendortool stands for Mooring's where a test is about building, and not about Kubernetes.
package vendortool

import (
	"fmt"
	"os"

	cloudprovider "k8s.io/cloud-provider"
)

// Main says whether the provider is there that its argument names.
func Main() { fmt.Println("tool", os.Args[1], cloudprovider.IsCloudProvider(os.Args[1])) }
