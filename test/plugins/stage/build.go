package stage

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/mooring-ccm/mooring/localcluster/gobuild"
	"github.com/mooring-ccm/mooring/localcluster/progress"
)

// Build compiles a main package of the test's module, such as "./cmd/reference-ccm", as it would be shipped: without the race
// detector. It returns the program's path.
func Build(t testing.TB, main string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), path.Base(main))
	err := gobuild.Build(t.Context(), gobuild.Options{
		Dir: ".", Package: main, Output: program, Flags: []string{"-ldflags=-s -w"}, Display: progress.New(os.Stderr),
	})
	if err != nil {
		t.Fatal(err)
	}
	return program
}
