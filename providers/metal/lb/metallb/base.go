package metallb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// base is what the cloud config says beside MetalLB's resources: machines, power, node groups, health, and what of BGP they have no word for.
type base struct {
	sections map[string]any
	// dir is what relative paths in it are relative to.
	dir string
}

// ofResources are the fields that only the resources may set, by their sections.
var ofResources = map[string][]string{
	"bgp": {"asn", "peers", "advertisements", "communityAliases", "pools"},
	"l2":  {"pools", "interfaces"},
}

// readBase reads the cloud config. There may be none.
func readBase(text []byte, dir string) (base, error) {
	read := base{sections: map[string]any{}, dir: dir}
	if err := yaml.UnmarshalStrict(text, &read.sections); err != nil {
		return base{}, fmt.Errorf("reading the cloud config: %w", err)
	}
	if read.sections == nil {
		read.sections = map[string]any{}
	}
	var errs []error
	refuse := func(field string) {
		errs = append(errs, fmt.Errorf("%s: comes from MetalLB's resources: leave it out of the cloud config", field))
	}
	if _, found := read.sections["pools"]; found {
		refuse("pools")
	}
	for _, name := range []string{"bgp", "l2"} {
		section, _ := read.sections[name].(map[string]any)
		for _, field := range ofResources[name] {
			if _, found := section[field]; found {
				refuse(name + "." + field)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return base{}, err
	}
	alone, err := read.with(&config.CloudConfig{})
	if err != nil {
		return base{}, err
	}
	if _, err := config.Read(bytes.NewReader(alone), dir); err != nil {
		return base{}, err
	}
	return read, nil
}

// with returns the cloud config with the sections that the resources make. What both say, as announcement.podRoutes, is as the cloud config
// says.
func (b base) with(converted *config.CloudConfig) ([]byte, error) {
	text, err := json.Marshal(converted)
	if err != nil {
		return nil, fmt.Errorf("encoding the cloud config: %w", err)
	}
	var made map[string]any
	if err := json.Unmarshal(text, &made); err != nil {
		return nil, fmt.Errorf("encoding the cloud config: %w", err)
	}
	merged := map[string]any{"apiVersion": config.APIVersion, "kind": config.CloudConfigKind}
	maps.Copy(merged, b.sections)
	for _, name := range []string{"bgp", "l2"} {
		if _, found := made[name]; !found {
			delete(merged, name) // what it says of a section that is not there has no effect
		}
	}
	for _, name := range []string{"pools", "bgp", "l2", "announcement"} {
		section, found := made[name]
		if !found {
			continue
		}
		fields, isMap := section.(map[string]any)
		if own, has := merged[name].(map[string]any); isMap && has {
			fields = maps.Clone(fields)
			maps.Copy(fields, own)
			section = fields
		}
		merged[name] = section
	}
	text, err = json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("encoding the cloud config: %w", err)
	}
	return text, nil
}
