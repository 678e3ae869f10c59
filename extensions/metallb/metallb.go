// Package metallb has the flag by which the provider metal takes its pools, routers and advertisements from MetalLB's resources. It is no part
// of extensions.All: it links the provider.
package metallb

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/providers/metal"
	source "github.com/mooring-ccm/mooring/providers/metal/lb/metallb"
)

// flag is the name of the flag.
const flag = "metal-config-source"

// kind is its only value but empty, with a namespace at the end if the resources are not in MetalLB's own.
const kind = "metallb"

// All returns the options of ccm.Main: the flag, and what builds the provider by it.
func All() []ccm.Option {
	value := ""
	return []ccm.Option{
		ccm.WithFlags(ccm.Flags{
			Section: "metal provider",
			Add: func(flags *pflag.FlagSet) {
				flags.StringVar(&value, flag, "", "Where the provider metal has its pools, routers and advertisements from: "+kind+
					", for MetalLB's resources in namespace "+source.DefaultNamespace+", or "+kind+"/NAMESPACE. They are watched; --cloud-config, or the object that holds "+
					"it, may have the other sections. Empty: from the cloud config.")
			},
			Validate: func() []error {
				if _, err := namespaceOf(value); err != nil {
					return []error{err}
				}
				return nil
			},
		}),
		ccm.WithProvider(metal.ProviderName, func(ctx context.Context, environment ccm.ProviderEnvironment) (cloudprovider.Interface, error) {
			namespace, err := namespaceOf(value)
			if err != nil {
				return nil, err
			}
			if namespace == "" {
				return environment.Registered()
			}
			built, err := metal.NewFromMetalLB(ctx, source.Options{
				API: environment.API, Namespace: namespace, File: environment.ConfigFile, Object: environment.ConfigObject,
			})
			if err != nil {
				return nil, fmt.Errorf("--%s=%s: %w", flag, value, err)
			}
			return built, nil
		}),
	}
}

// namespaceOf returns the namespace of the resources, empty if they are no source.
func namespaceOf(value string) (string, error) {
	if value == "" {
		return "", nil
	}
	name, namespace, has := strings.Cut(value, "/")
	if !has {
		namespace = source.DefaultNamespace
	}
	if name != kind || len(validation.IsDNS1123Label(namespace)) > 0 {
		return "", fmt.Errorf("--%s: invalid value %q: must be %s or %s/NAMESPACE", flag, value, kind, kind)
	}
	return namespace, nil
}
