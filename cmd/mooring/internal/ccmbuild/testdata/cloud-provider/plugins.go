// Package cloudprovider has what a provider registers itself with, by the same names as k8s.io/cloud-provider.
package cloudprovider

import (
	"fmt"
	"io"
	"os"
)

// Interface is a provider.
type Interface interface{ ProviderName() string }

// Factory builds a provider from its configuration.
type Factory func(config io.Reader) (Interface, error)

var providers = make(map[string]Factory)

// RegisterCloudProvider makes a provider known, and ends the process if its name is taken.
func RegisterCloudProvider(name string, cloud Factory) {
	if _, found := providers[name]; found {
		fmt.Fprintf(os.Stderr, "Cloud provider %q was registered twice\n", name)
		os.Exit(255)
	}
	providers[name] = cloud
}

// IsCloudProvider reports whether a provider of that name is known.
func IsCloudProvider(name string) bool {
	_, found := providers[name]
	return found
}
