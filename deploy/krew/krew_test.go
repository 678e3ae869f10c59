package krew_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/deploy/krew"
)

// plugin is what Krew reads of a manifest.
type plugin struct {
	APIVersion string
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Version, Homepage, ShortDescription, Description, Caveats string
		Platforms                                                 []platform
	}
}

type platform struct {
	Selector         struct{ MatchLabels map[string]string }
	URI, SHA256, Bin string
}

func TestManifest(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	text, err := krew.Manifest(krew.Release{Version: "v0.1.0", Archives: []krew.Archive{
		{OS: "linux", Arch: "amd64", URI: "https://example.com/a.tar.gz", SHA256: sum},
		{OS: "darwin", Arch: "arm64", URI: "https://example.com/b.tar.gz", SHA256: sum},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got plugin
	if err := yaml.UnmarshalStrict(text, &got); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if got.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || got.Kind != "Plugin" || got.Metadata.Name != "mooring" ||
		got.Spec.Version != "v0.1.0" || len(got.Spec.ShortDescription) > 50 {
		t.Errorf("the manifest is %+v", got)
	}
	var want [2]platform
	for i, name := range []string{"linux amd64 a", "darwin arm64 b"} {
		words := strings.Fields(name)
		want[i].Selector.MatchLabels = map[string]string{"os": words[0], "arch": words[1]}
		want[i].URI, want[i].SHA256, want[i].Bin = "https://example.com/"+words[2]+".tar.gz", sum, "mooring"
	}
	if diff := cmp.Diff(want[:], got.Spec.Platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

func TestManifestThatKrewWouldRefuse(t *testing.T) {
	_, err := krew.Manifest(krew.Release{Version: "0.1", Archives: []krew.Archive{
		{OS: "linux", Arch: "amd64", URI: "http://x", SHA256: "1"}, {OS: "linux", Arch: "amd64"}, {OS: "a: b"},
	}})
	for _, want := range []string{
		`version "0.1": must be as v1.2.3`, `linux/amd64: URI "http://x": must be https`, `linux/amd64: SHA-256 "1"`, "platform linux/amd64: twice",
		`platform "a: b/": must be OS/ARCH`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if _, err := krew.Manifest(krew.Release{Version: "v1.0.0"}); err == nil || !strings.Contains(err.Error(), "at least one") {
		t.Errorf("without archives: %v", err)
	}
}
