package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/docgen"
)

// eventSenders are the folders and files whose code tells objects something, by the section of the page that says what to do about it.
var eventSenders = map[string][]string{
	"Node controller":                 {"internal/controller/node"},
	"Node lifecycle controller":       {"internal/controller/nodelifecycle"},
	"Route controller":                {"internal/controller/route"},
	"Service controller":              {"internal/controller/service"},
	"Serving certificates":            {"extensions/servingcertificate"},
	"Node groups":                     {"extensions/nodegroups"},
	"Cloud config":                    {"internal/names/cloudconfig.go"},
	"Bare metal: addresses":           {"providers/metal/lb/ipam", "providers/metal/lb/ipam/pool"},
	"Bare metal: MetalLB's resources": {"providers/metal/lb/metallb"},
	"Bare metal: announcement":        {"providers/metal/lb/announce"},
	"Bare metal: machines":            {"providers/metal/machines/dead", "providers/metal/machines/nodegroup"},
}

// TestEveryReasonIsExplained holds the reasons and conditions in the source against the pages that say what to do about each.
func TestEveryReasonIsExplained(t *testing.T) {
	const page = "docs/reference/events-and-conditions*.md"
	sections := sectionsOf(t, page)
	shared, err := docgen.Constants(filepath.Join(root, "internal", "names"))
	if err != nil {
		t.Fatal(err)
	}
	for title, folders := range eventSenders {
		var files *token.FileSet
		var source []*ast.File
		parsed(t, folders, func(of *token.FileSet, file *ast.File) { files, source = of, append(source, file) })
		said, err := toldBy(files, source, shared)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(said) == 0 {
			t.Errorf("the code of %q tells nothing: this test looks at the wrong folders", title)
		}
		for _, reason := range slices.Sorted(maps.Keys(said)) {
			if !sections[title][reason] {
				t.Errorf("%s: %q is not in the section %q of %s: say what it means and what to do", said[reason], reason, title, page)
			}
		}
		for _, reason := range slices.Sorted(maps.Keys(sections[title])) {
			if said[reason] == "" {
				t.Errorf("%s explains %q in the section %q, which no constant of %q has", page, reason, title, folders)
			}
		}
	}
	for title := range sections {
		if eventSenders[title] == nil {
			t.Errorf("the section %q of %s is held against no folder", title, page)
		}
	}
}

// TestReasonsOfEventsAreConstants keeps the other test from missing any.
func TestReasonsOfEventsAreConstants(t *testing.T) {
	known := []string{
		filepath.Join(root, "ccm"),      // passes on what others tell
		filepath.Join(root, "dev/demo"), // reads it
	}
	for _, folders := range eventSenders {
		for _, folder := range folders {
			known = append(known, filepath.Join(root, folder))
		}
	}
	parsed(t, []string{"internal", "ccm", "extensions", "providers"}, func(files *token.FileSet, file *ast.File) {
		literalReasons(file, func(reason string, at token.Pos) {
			t.Errorf("%s: the reason %q of an event is no constant", files.Position(at), reason)
		})
		where := filepath.Dir(files.Position(file.Pos()).Filename)
		if slices.ContainsFunc(known, func(folder string) bool { return where == folder || strings.HasPrefix(where, folder+"/") }) {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if ok && strings.HasPrefix(selector.Sel.Name, "EventType") {
				t.Errorf("%s: an event of a folder that is in no section", files.Position(node.Pos()))
			}
			return true
		})
	})
}

// sectionsOf returns the names in the first columns of the tables of the pages that match a pattern, by the section of the second level.
func sectionsOf(t *testing.T, pattern string) map[string]map[string]bool {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%s: %d pages, %v", pattern, len(pages), err)
	}
	sections := map[string]map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range strings.Split(string(text), "\n## ")[1:] {
			title, body, _ := strings.Cut(section, "\n")
			sections[title] = map[string]bool{}
			for name := range firstColumn(body) {
				sections[title][name] = true
			}
		}
	}
	return sections
}

func TestReasonsAreFound(t *testing.T) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "x.go", `package x
const (
	ReasonA = "A"
	EventB = string(hidden)
	EventC = string(other.C)
	hidden problem = "B"
	C Reason = "C"
	conditionD = "D"
	ReasonE = names.ReasonOfE
)
func f() { r.Event(o, "Warning", "E", "text"); r.Event(o, "Warning", ReasonA, "text") }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	said, err := toldBy(files, []*ast.File{file}, map[string]string{"ReasonOfE": "SharedE"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(said)), []string{"A", "B", "C", "SharedE"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	var literal []string
	literalReasons(file, func(reason string, _ token.Pos) { literal = append(literal, reason) })
	if !slices.Equal(literal, []string{"E"}) {
		t.Errorf("reasons that are no constants: %q, want E", literal)
	}
}
