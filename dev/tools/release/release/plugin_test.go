package release

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPlugin writes Krew's manifest of archives, and reads it as Krew does.
func TestPlugin(t *testing.T) {
	r := &run{Options: Options{Output: t.TempDir(), Version: "v0.1.0", Programs: []Program{
		{Name: Daemon, Platforms: []string{"linux/amd64"}}, {Name: tool, Platforms: []string{"linux/amd64", "darwin/arm64"}},
	}}}
	for _, platform := range []string{"linux-amd64", "darwin-arm64"} {
		if err := os.WriteFile(filepath.Join(r.Output, "mooring-v0.1.0-"+platform+".tar.gz"), []byte(platform), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.plugin(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.Output, PluginFile))
	if err != nil {
		t.Fatal(err)
	}
	type platform struct {
		Selector         struct{ MatchLabels map[string]string }
		URI, SHA256, Bin string
	}
	var got struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description, Caveats string
			Platforms                                                 []platform
		}
	}
	if err := yaml.UnmarshalStrict(text, &got); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if got.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || got.Kind != "Plugin" || got.Metadata.Name != "mooring" ||
		got.Spec.Version != "v0.1.0" || len(got.Spec.ShortDescription) > 50 {
		t.Errorf("the manifest is %+v", got)
	}
	const archive = "https://github.com/mooring-ccm/mooring/releases/download/v0.1.0/mooring-v0.1.0-"
	want := fmt.Sprintf("[{{map[arch:amd64 os:linux]} %slinux-amd64.tar.gz %x mooring} {{map[arch:arm64 os:darwin]} %sdarwin-arm64.tar.gz %x mooring}]",
		archive, sha256.Sum256([]byte("linux-amd64")), archive, sha256.Sum256([]byte("darwin-arm64")))
	if have := fmt.Sprint(got.Spec.Platforms); have != want {
		t.Errorf("platforms %s, want %s", have, want)
	}
}
