package localcluster_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/must"
)

func TestChosenVersion(t *testing.T) {
	for variable, want := range map[string]string{
		"": localcluster.DefaultVersion, "1.34": "v1.34.4", "v1.34": "v1.34.4", "1.35.4": "v1.35.4", "v1.36.3": "v1.36.3",
	} {
		t.Setenv(localcluster.VersionVariable, variable)
		if got, err := localcluster.ChosenVersion(); got != want || err != nil {
			t.Errorf("%s=%s chooses %q, %v, want %q", localcluster.VersionVariable, variable, got, err, want)
		}
	}
	for _, variable := range []string{"1.3", "1.20", "v1.34.99", "newest"} {
		t.Setenv(localcluster.VersionVariable, variable)
		_, err := localcluster.ChosenVersion()
		must.ErrorContains(t, err, localcluster.VersionVariable, variable, strings.Join(localcluster.Versions(), ", "))
	}
	if !slices.Contains(localcluster.Versions(), localcluster.DefaultVersion) {
		t.Errorf("%s is not among %v", localcluster.DefaultVersion, localcluster.Versions())
	}
}

// Each version has a place of its own in the cache, the option wins over the variable, and a change of what one version is pinned by
// changes the place of no other.
func TestBuildChoosesTheVersion(t *testing.T) {
	root, cache := checkout(t), t.TempDir()
	write(t, root, "dev/localcluster/binaries/kubernetes-1.34.mod", "module example.com/older\n\ngo 1.26\n")
	write(t, root, "dev/localcluster/binaries/controlplane/main.go", `package main

import "runtime/debug"

func main() {
	info, _ := debug.ReadBuildInfo()
	print(info.Main.Path)
}
`)
	build := func(option, variable string) localcluster.Binaries {
		t.Helper()
		t.Setenv(localcluster.VersionVariable, variable)
		binaries, err := localcluster.Build(t.Context(), localcluster.BuildOptions{Version: option, CacheDir: cache})
		if err != nil {
			t.Fatal(err)
		}
		return binaries
	}
	standard, old := build("", ""), build("", "1.34")
	if standard.Version() != localcluster.DefaultVersion || old.Version() != "v1.34.4" || standard.Dir() == old.Dir() {
		t.Errorf("built %s in %s and %s in %s", standard.Version(), standard.Dir(), old.Version(), old.Dir())
	}
	for module, binaries := range map[string]localcluster.Binaries{"example.com/binaries": standard, "example.com/older": old} {
		if output, err := exec.Command(binaries.Program("etcd")).CombinedOutput(); string(output) != module || err != nil {
			t.Errorf("%s was built as %s, %v, want %s", binaries.Version(), output, err, module)
		}
	}
	if got := build("v1.34.4", localcluster.DefaultVersion); got != old {
		t.Errorf("the option chooses %s in %s, want %s", got.Version(), got.Dir(), old.Dir())
	}
	write(t, root, "dev/localcluster/binaries/kubernetes-1.34.sum", "")
	if got := build("1.34", ""); got.Dir() == old.Dir() {
		t.Error("other checksums have the same place in the cache")
	}
	old = build("1.34", "")
	write(t, root, "dev/localcluster/binaries/kubernetes-1.34.mod", "module example.com/older\n\ngo 1.25\n")
	if got := build("1.34", ""); got.Dir() == old.Dir() {
		t.Error("other pins have the same place in the cache")
	}
	if got := build("", ""); got != standard {
		t.Error("the pins of another version change the place of the default one")
	}
	_, err := localcluster.Build(t.Context(), localcluster.BuildOptions{Version: "1.20", CacheDir: cache})
	must.ErrorContains(t, err, `the version is "1.20"`, "v1.34.4")
}

// module is what go mod edit -json says of a file.
type module struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
}

// Each version is pinned by one file, which pins the parts of Kubernetes in that version, beside its checksums.
func TestVersionsArePinned(t *testing.T) {
	files, err := filepath.Glob("binaries/*.mod")
	if err != nil {
		t.Fatal(err)
	}
	var pinned []string
	for _, file := range files {
		output, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", file).Output()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var read module
		if err := json.Unmarshal(output, &read); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		versions := map[string]string{}
		for _, required := range read.Require {
			versions[required.Path] = required.Version
		}
		kubernetes := versions["k8s.io/kubernetes"]
		pinned = append(pinned, kubernetes)
		staging := "v0." + strings.TrimPrefix(kubernetes, "v1.")
		for _, path := range []string{"api", "apimachinery", "apiserver", "client-go", "cloud-provider", "component-base", "kubectl", "kubelet"} {
			if got := versions["k8s.io/"+path]; got != staging {
				t.Errorf("%s has Kubernetes %s and k8s.io/%s %s, want %s", file, kubernetes, path, got, staging)
			}
		}
		if _, err := os.Stat(strings.TrimSuffix(file, ".mod") + ".sum"); err != nil {
			t.Errorf("the checksums of %s: %v", file, err)
		}
		if (filepath.Base(file) == "go.mod") != (kubernetes == localcluster.DefaultVersion) {
			t.Errorf("%s pins %s; go.mod pins the default, which is %s", file, kubernetes, localcluster.DefaultVersion)
		}
	}
	slices.Sort(pinned)
	if diff := cmp.Diff(localcluster.Versions(), pinned); diff != "" {
		t.Errorf("versions that can be built and that are pinned (-list +files):\n%s", diff)
	}
}
