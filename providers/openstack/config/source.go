package config

import (
	"io"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/configsource"
)

// Source is a cloud config that follows its files: cloud.conf, clouds.yaml and certificates.
type Source = configsource.Source[Config]

// format is how it is read, and what of a change a running process takes.
var format = configsource.Format[Config]{
	Provider: "openstack", ValidateChange: validateChange,
	Read: func(files *configsource.Files, data []byte, _ string) (*Config, error) { return parseWith(files, data) },
}

// Open loads the cloud config that a provider's factory is given, and follows it as configsource.Open says.
func Open(from io.Reader) (*Source, error) { return configsource.Open(format, from) }

// validateChange returns what of a change a running process does not take: which parts of the provider there are, and what nodes have
// from it for as long as they live.
func validateChange(from, to *Config) field.ErrorList {
	var errs field.ErrorList
	fixed := func(differs bool, path ...string) {
		if differs {
			errs = append(errs, field.Forbidden(field.NewPath(path[0], path[1:]...), "cannot change while the process runs: start it anew"))
		}
	}
	fixed(from.Global.Region != to.Global.Region, "[Global]", "region")
	fixed(from.LoadBalancer.Enabled != to.LoadBalancer.Enabled, "[LoadBalancer]", "enabled")
	fixed(from.LoadBalancer.ManageSecurityGroups != to.LoadBalancer.ManageSecurityGroups, "[LoadBalancer]", "manage-security-groups")
	fixed((from.Route.RouterID == "") != (to.Route.RouterID == ""), "[Route]", "router-id")
	return errs
}
