// Package ccm stands for Mooring's where a test is about building, and not about Kubernetes.
package ccm

import (
	"fmt"
	"os"

	cloudprovider "k8s.io/cloud-provider"
)

// Option changes nothing.
type Option func()

// Main says whether the provider is there that its argument names.
func Main(...Option) { fmt.Println("daemon", os.Args[1], cloudprovider.IsCloudProvider(os.Args[1])) }
