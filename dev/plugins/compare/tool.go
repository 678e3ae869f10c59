package compare

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the module of this checkout.
const root = "github.com/mooring-ccm/mooring"

// BuildMooring has `mooring build` make the manager with plugins, as anybody would who has no main of his own. Plugins are
// packages that the test's module requires, in the versions that it requires. It returns the program's path.
func BuildMooring(t testing.TB, plugins ...string) string {
	t.Helper()
	checkout, err := goList(t, "-m", "-f", "{{.Dir}}", root)
	if err != nil {
		t.Fatal(err)
	}
	with, err := goList(t, append([]string{"-f", "--with={{.ImportPath}}@{{.Module.Version}}"}, plugins...)...)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "mooring-ccm")
	tool := build(t, checkout[0], "./cmd/mooring")
	run := exec.CommandContext(t.Context(), tool, append([]string{"build", "--output=" + program}, with...)...)
	run.Dir, run.Stdout, run.Stderr = checkout[0], os.Stderr, os.Stderr
	if err := run.Run(); err != nil {
		t.Fatalf("mooring build %s: %v", strings.Join(with, " "), err)
	}
	return program
}

// goList returns the lines that go list prints in the test's module.
func goList(t testing.TB, args ...string) ([]string, error) {
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(args, " "), err)
	}
	return strings.Fields(string(output)), nil
}
