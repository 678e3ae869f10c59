package compare

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
	"github.com/mooring-ccm/mooring/internal/tool/progress"
)

// Build compiles a main package of the test's module, such as "./cmd/reference-ccm", and returns the program's path. It is
// compiled as `mooring build` compiles, so both share what the go tool has cached.
func Build(t testing.TB, main string) string {
	t.Helper()
	return build(t, ".", main)
}

func build(t testing.TB, dir, main string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), path.Base(main))
	err := gobuild.Build(t.Context(), gobuild.Options{
		Dir: dir, Package: main, Output: program, Flags: []string{"-ldflags=-s -w"}, Display: progress.New(os.Stderr),
	})
	if err != nil {
		t.Fatal(err)
	}
	return program
}
