package architecture

import (
	"cmp"
	"go/ast"
	"go/types"
	"maps"
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
	loaded, err := load(dir, patterns)
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, one := range loaded.packages {
		generated := map[string]bool{}
		for _, file := range one.files {
			generated[loaded.files.Position(file.Package).Filename] = ast.IsGenerated(file)
		}
		for _, name := range one.types.Scope().Names() {
			object := one.types.Scope().Lookup(name)
			_, isType := object.(*types.TypeName)
			if !isType && types.TypeString(object.Type(), nil) == "time.Duration" && !generated[loaded.files.Position(object.Pos()).Filename] {
				found[one.at] = append(found[one.at], name)
			}
		}
	}
	return found, nil
}
