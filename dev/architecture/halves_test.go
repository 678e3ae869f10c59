package architecture

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// output runs a program in a folder and returns what it prints.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var complaints strings.Builder
	command.Stderr = &complaints
	printed, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s in %s: %v\n%s", name, strings.Join(args, " "), dir, err, complaints.String())
	}
	return string(printed)
}

// Neither program that users get has a package of the workshop in it.
func TestProgramsLinkNoWorkshop(t *testing.T) {
	for _, program := range []string{"./cmd/cloud-controller-manager", "./cmd/mooring", "./vendortool"} {
		linked := strings.Fields(output(t, root, "go", "list", "-deps", program))
		if len(linked) < 100 {
			t.Errorf("%s has %d packages: this test looks at too few", program, len(linked))
		}
		for _, path := range linked {
			if strings.HasPrefix(path, Module+"/dev/") {
				t.Errorf("%s links %s", program, path)
			}
		}
	}
}

// plugins are the modules that ask for Kubernetes libraries of their own.
const plugins = "dev/plugins/"

// The modules are few. A package that tests of the root import belongs to the root module, so testing it takes no replace.
func TestModulesAreFew(t *testing.T) {
	var modules []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == ".git" || name == "testdata" || name == "bin" || name == "out") {
			return filepath.SkipDir
		}
		if entry.Name() == "go.mod" {
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if !strings.HasPrefix(folder, plugins) {
				modules = append(modules, filepath.ToSlash(folder))
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		".", "dev/bench", "dev/bench/metal/programs", "dev/chart", "dev/demo", "dev/e2e/upstream/programs", "dev/localcluster/binaries", "dev/tools",
		"examples/provider", "examples/vendor",
	}
	slices.Sort(modules)
	if !slices.Equal(modules, want) {
		t.Errorf("the modules are %q, and not %q", modules, want)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || strings.Contains(string(text), "\nreplace") {
		t.Errorf("the root module replaces another, and modules that require it would not: %v", err)
	}
}

// A vendor's program builds outside of the checkout, from the module as vendors require it. This checkout stands for
// the version: no published one has this change.
func TestAVendorsProgramBuildsElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("links a whole manager, which -short leaves out")
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "vendor")
	if err := os.CopyFS(elsewhere, os.DirFS(filepath.Join(checkout, "examples", "vendor"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(elsewhere, "go.sum")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	output(t, elsewhere, "go", "mod", "edit", "-replace="+Module+"="+checkout)
	output(t, elsewhere, "go", "mod", "tidy")
	output(t, elsewhere, "go", "build", "-o", filepath.Join(elsewhere, "ccm"), ".")
	for _, line := range strings.Split(output(t, elsewhere, "go", "list", "-m", "-f", "{{.Path}}{{with .Replace}} => {{.Path}}{{end}}", "all"), "\n") {
		if path, replaced, found := strings.Cut(line, " => "); found && path != Module {
			t.Errorf("%s is replaced by %s: a vendor would not know", path, replaced)
		}
	}
}
