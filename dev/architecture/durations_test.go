package architecture

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostDurations is how many durations the core may name, in constants and variables of packages.
const mostDurations = 40

// TestFewDurationsAreNamed prints them with -v. A duration whose exact value does not matter takes one that there is, of package kit for example.
func TestFewDurationsAreNamed(t *testing.T) {
	found, err := durations(root, "./ccm/...", "./internal/...")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, names := range found {
		count += len(names)
	}
	packages := slices.SortedFunc(maps.Keys(found), func(a, b string) int { return cmp.Or(len(found[b])-len(found[a]), cmp.Compare(a, b)) })
	for _, one := range packages {
		t.Logf("%2d %s: %s", len(found[one]), one, strings.Join(found[one], " "))
	}
	t.Logf("%d durations are named", count)
	if count > mostDurations || count == 0 {
		t.Errorf("the core names %d durations, at most %d are allowed; most are in %q", count, mostDurations, packages[:min(3, len(packages))])
	}
}

// durations returns the names of the package-level constants and variables whose type is time.Duration, by package. Tests and generated files do
// not count.
func durations(dir string, patterns ...string) (map[string][]string, error) {
	packages, err := listExported(dir, patterns)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, one := range packages {
		exports[one.ImportPath] = one.Export
	}
	files, found := token.NewFileSet(), map[string][]string{}
	imported := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, one := range packages {
		if one.DepOnly {
			continue
		}
		var source []*ast.File
		generated := map[string]bool{}
		for _, name := range one.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(one.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			source, generated[filepath.Join(one.Dir, name)] = append(source, file), ast.IsGenerated(file)
		}
		checked, err := (&types.Config{Importer: imported, FakeImportC: true}).Check(one.ImportPath, files, source, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.ImportPath, err)
		}
		at := strings.TrimPrefix(one.ImportPath, Module+"/")
		for _, name := range checked.Scope().Names() {
			object := checked.Scope().Lookup(name)
			_, isType := object.(*types.TypeName)
			if !isType && types.TypeString(object.Type(), nil) == "time.Duration" && !generated[files.Position(object.Pos()).Filename] {
				found[at] = append(found[at], name)
			}
		}
	}
	return found, nil
}
