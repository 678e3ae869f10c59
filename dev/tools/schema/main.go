// Command schema writes the JSON schemas of the cloud configs of providers, and the reference page of the bare-metal one, from the
// types and their doc comments. With --check it writes nothing, and says which file is not current.
//
// It is in the module dev/tools: its library is no dependency of what vendors build with Mooring.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/invopop/jsonschema"

	"github.com/mooring-ccm/mooring/dev/docgen"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/sim"
)

// output is a file that is written.
type output struct {
	name   string
	render func() ([]byte, error)
}

// packages are the outputs by the package of the types, which is also what go generate is called with.
var packages = map[string][]output{
	"providers/metal/config": {
		{"metal-config.schema.json", func() ([]byte, error) { return text(metalSchema()) }},
		{"metal-config.md", func() ([]byte, error) {
			described, err := metalSchema()
			if err != nil {
				return nil, err
			}
			return metalPage(described)
		}},
	},
	"providers/sim": {
		{"sim-config.schema.json", func() ([]byte, error) { return text(simSchema()) }},
	},
}

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if a file is not what would be written")
	flag.Parse()
	if err := generate(flag.Arg(0), *check); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

// generate writes what belongs to a package. The working directory is this one.
func generate(of string, check bool) error {
	outputs, known := packages[of]
	if !known {
		return fmt.Errorf("no schema is made of the package %q", of)
	}
	for _, file := range outputs {
		rendered, err := file.render()
		if err != nil {
			return err
		}
		path := filepath.Join("../../../docs/reference", file.name)
		if err := docgen.Put(path, rendered, check, "types", "./"+of); err != nil {
			return err
		}
	}
	return nil
}

func text(schema *jsonschema.Schema, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	rendered, err := json.MarshalIndent(schema, "", "  ")
	return append(rendered, '\n'), err
}

// metalSchema is the schema of both kinds of files of the bare-metal provider. The kind decides.
func metalSchema() (*jsonschema.Schema, error) {
	types, err := newTypes("../../../providers/metal/config")
	if err != nil {
		return nil, err
	}
	schema := types.schema("metal-config.schema.json", config.CloudConfig{}, config.MachineList{})
	types.identify(schema, "CloudConfig", config.APIVersion, config.CloudConfigKind)
	types.identify(schema, "MachineList", config.APIVersion, config.MachineListKind)
	isList := jsonschema.NewProperties()
	isList.Set("kind", &jsonschema.Schema{Const: config.MachineListKind})
	schema.If = &jsonschema.Schema{Properties: isList, Required: []string{"kind"}}
	schema.Then = &jsonschema.Schema{Ref: "#/$defs/MachineList"}
	schema.Else = &jsonschema.Schema{Ref: "#/$defs/CloudConfig"}
	return schema, types.undocumented(schema)
}

// simSchema is the schema of the cloud config of the simulated cloud.
func simSchema() (*jsonschema.Schema, error) {
	types, err := newTypes("../../../providers/sim")
	if err != nil {
		return nil, err
	}
	schema := types.schema("sim-config.schema.json", sim.Config{})
	types.identify(schema, "Config", sim.ConfigAPIVersion, sim.ConfigKind)
	schema.AllOf = []*jsonschema.Schema{{Ref: "#/$defs/Config"}}
	return schema, types.undocumented(schema)
}
