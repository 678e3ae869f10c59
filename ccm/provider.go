package ccm

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	_ "unsafe" // for go:linkname

	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/config"
)

// validateProvider returns an error that names the providers there are, if the named one is not among them. An empty name is
// the reference's to complain about.
func validateProvider(name string) error {
	if name == "" || cloudprovider.IsCloudProvider(name) {
		return nil
	}
	return invalid("cloud-provider", name, "unknown provider; this program has "+registeredProviders())
}

// newPlugin builds the provider that --cloud-provider names from the file that --cloud-config names. Nothing else of the
// plugin is called until this replica leads, except what says what it is: ProviderName and Capabilities.
//
// It does not use cloudprovider.InitCloudProvider, which ends the process when the file cannot be opened.
func newPlugin(settings ccmconfig.CloudProviderConfiguration) (cloudprovider.Interface, error) {
	plugin, err := buildPlugin(settings)
	if err != nil {
		return nil, err
	}
	if plugin == nil {
		return nil, fmt.Errorf("cloud provider %q built nothing from --cloud-config %q, and no error", settings.Name, settings.CloudConfigFile)
	}
	return plugin, nil
}

// buildPlugin calls the plugin's factory. Without a file the factory gets nil, which plugins look for.
func buildPlugin(settings ccmconfig.CloudProviderConfiguration) (cloudprovider.Interface, error) {
	if settings.CloudConfigFile == "" {
		plugin, err := cloudprovider.GetCloudProvider(settings.Name, nil)
		return plugin, joined(fmt.Sprintf("cloud provider %q without --cloud-config", settings.Name), err)
	}
	file, err := os.Open(settings.CloudConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--cloud-config: %w", err)
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return nil, fmt.Errorf("--cloud-config: %s is not a file", settings.CloudConfigFile)
	}
	plugin, err := cloudprovider.GetCloudProvider(settings.Name, file)
	return plugin, joined(fmt.Sprintf("cloud provider %q, --cloud-config %s", settings.Name, settings.CloudConfigFile), err)
}

// providers is the map in which k8s.io/cloud-provider keeps what plugins register. That package can be asked for one name,
// but not for the names; whoever mistypes one needs them. Should the variable be renamed there, this one is merely empty.
// All of it is written while packages initialize.
//
//go:linkname providers k8s.io/cloud-provider.providers
var providers map[string]cloudprovider.Factory

// registeredProviders lists the providers that this program was built with.
func registeredProviders() string {
	if len(providers) == 0 {
		return "none; import a package that registers it"
	}
	names := slices.Sorted(maps.Keys(providers))
	return strings.Join(names, ", ")
}
