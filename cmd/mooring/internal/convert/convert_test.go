package convert

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

var update = flag.Bool("update", false, "write the expected configs and notes of testdata")

// Each file of testdata is converted to the config and the notes beside it.
func TestMetalLB(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(inputs) < 6 {
		t.Fatalf("%d inputs: %v", len(inputs), err)
	}
	for _, input := range inputs {
		if strings.HasSuffix(input, ".config.yaml") {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(input), ".yaml")
		t.Run(name, func(t *testing.T) {
			from, err := os.Open(input)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = from.Close() }()
			result, err := MetalLB(from)
			if err != nil {
				t.Fatal(err)
			}
			text, err := result.YAML()
			if err != nil {
				t.Fatal(err)
			}
			var notes strings.Builder
			for _, note := range result.Notes {
				notes.WriteString(note.String() + "\n")
			}
			golden(t, "testdata/"+name+".config.yaml", string(text))
			golden(t, "testdata/"+name+".notes.txt", notes.String())
			if strings.Contains(string(text)+notes.String(), "swordfish") {
				t.Error("a password is shown")
			}
			for _, wrong := range config.Examine(text, "/").Errors {
				if !strings.Contains(notes.String(), wrong.Field+": "+wrong.ErrorBody()) {
					t.Errorf("the config is invalid, and no note says it: %v", wrong)
				}
			}
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it):\n%s", file, diff)
	}
}

// Notes name values of the chart, which have to be there.
func TestValuesOfTheChart(t *testing.T) {
	text, err := os.ReadFile("../../../../deploy/charts/mooring/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{secretsValue, layer2Value} {
		if _, found, err := unstructured.NestedFieldNoCopy(values, strings.Split(path, ".")...); !found || err != nil {
			t.Errorf("the chart has no value %s (%v)", path, err)
		}
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ input, want string }{
		"nothing":     {"", "there is no IPAddressPool"},
		"others":      {"apiVersion: v1\nkind: Secret\n", "among 1 other objects"},
		"not YAML":    {"a: b: c\n", "document 1: "},
		"no object":   {"- 1\n", "document 1: not an object of Kubernetes"},
		"wrong type":  {"apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: a}\nspec: {addresses: 3}\n", "document 1: IPAddressPool a: "},
		"all at once": {"a: b: c\n---\n- 1\n", "document 2: not an object"},
	} {
		if _, err := MetalLB(strings.NewReader(c.input)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
