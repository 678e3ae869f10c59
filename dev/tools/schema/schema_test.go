package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// The files in docs/reference are what the types say.
func TestReferenceIsCurrent(t *testing.T) {
	for name := range packages {
		if err := generate(name, true); err != nil {
			t.Error(err)
		}
	}
}

// compiled returns a schema that is checked in.
func compiled(t *testing.T, name string) *validator.Schema {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("../../../docs/reference", name))
	if err != nil {
		t.Fatal(err)
	}
	document, err := validator.UnmarshalJSON(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	if err := compiler.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(schema *validator.Schema, text string) error {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	document, err := validator.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(document)
}

// block finds the examples of a page that are files of their own.
var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// What people copy from the documentation is valid.
func TestExamplesAreValid(t *testing.T) {
	for name, kinds := range map[string][]string{
		"metal-config.schema.json": {"kind: MetalCloudConfig\n", "kind: MachineList\n"},
		"sim-config.schema.json":   {"kind: CloudConfig\n"},
	} {
		schema, seen := compiled(t, name), map[string]int{}
		pages, err := filepath.Glob("../../../docs/*/*.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range block.FindAllStringSubmatch(string(text), -1) {
				for _, kind := range kinds {
					if !strings.Contains(match[1], kind) {
						continue
					}
					seen[kind]++
					if err := validate(schema, match[1]); err != nil {
						t.Errorf("an example of %s: %v\n%s", page, err, match[1])
					}
				}
			}
		}
		for _, kind := range kinds {
			if seen[kind] == 0 {
				t.Errorf("no page has an example with %q", kind)
			}
		}
	}
}

// What an editor is to mark is not valid.
func TestMistakesAreFound(t *testing.T) {
	const head = "apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\n"
	schema := compiled(t, "metal-config.schema.json")
	for name, text := range map[string]string{
		"unknown field":  head + "pool: []\n",
		"another kind":   "apiVersion: metal.mooring.dev/v1alpha1\nkind: CloudConfig\n",
		"required field": head + "bgp: {peers: []}\n",
		"unknown value":  head + "bgp: {asn: 1, mode: Both, peers: []}\n",
		"duration":       head + "announcement: {drainWait: soon}\n",
		"type":           head + "pools: [{name: 1}]\n",
		"of a list":      "apiVersion: metal.mooring.dev/v1alpha1\nkind: MachineList\npools: []\n",
	} {
		if validate(schema, text) == nil {
			t.Errorf("%s: it is taken to be valid:\n%s", name, text)
		}
	}
	if err := validate(schema, head+"bgp: {asn: 1, peers: []}\nannouncement: {drainWait: 1m30s}\n"); err != nil {
		t.Error(err)
	}
}
