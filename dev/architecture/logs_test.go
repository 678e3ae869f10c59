package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// parsed calls yield with each file of the project's own source below folders, without tests.
func parsed(t *testing.T, folders []string, yield func(files *token.FileSet, file *ast.File)) {
	t.Helper()
	files := token.NewFileSet()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			yield(files, file)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// firstColumn returns the names in the first column of tables, each with how often it is there. Only names in backquotes count,
// and a cell may have several.
func firstColumn(text string) map[string]int {
	quoted, names := regexp.MustCompile("`([^`]+)`"), map[string]int{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.TrimSpace(cells[0]) != "" {
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[1], -1) {
			names[match[1]]++
		}
	}
	return names
}

// TestLogsHaveOneVocabulary holds the keys of all log calls against the page that says what each means.
func TestLogsHaveOneVocabulary(t *testing.T) {
	const page = "docs/reference/logs.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	documented, used := firstColumn(string(text)), map[string]string{}
	parsed(t, []string{"internal", "ccm", "extensions", "providers"}, func(files *token.FileSet, file *ast.File) {
		logKeys(file, func(key string, at token.Pos) {
			where := files.Position(at).String()
			switch {
			case key == "":
				t.Errorf("%s: the key of a log call is not written out", where)
			case !wellFormedKey(key):
				t.Errorf("%s: the key %q is not one word in camel case", where, key)
			case documented[key] == 0:
				t.Errorf("%s: the key %q is not in %s: use one that is, or add it with its meaning", where, key, page)
			}
			used[key] = where
		})
	})
	for _, key := range slices.Sorted(maps.Keys(documented)) {
		if used[key] == "" {
			t.Errorf("%s lists the key %q, which no log call has", page, key)
		}
		if documented[key] > 1 {
			t.Errorf("%s lists the key %q %d times", page, key, documented[key])
		}
	}
	if len(used) < 20 {
		t.Errorf("%d keys are used: this test looks at too few files", len(used))
	}
}

func TestLogKeysAreFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
func (e ending) pairs() []any { said := []any{"a", 1}; return append(said, "b", 2) }
func f(ctx context.Context) {
	log := log.FromContext(ctx).WithValues("c", 3)
	log.V(1).Info("text", "d", 4, key, 5)
	log.Error(err, "text", "e", 6)
	log.Info("text", e.keys("f", 7)...)
	http.Error(w, "text", 404)
	errs.Error()
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	logKeys(file, func(key string, _ token.Pos) { found = append(found, key) })
	slices.Sort(found)
	if want := []string{"", "a", "b", "c", "d", "e", "f"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// TestTracesAreDocumented holds the spans of nodes against the page that says what each covers.
func TestTracesAreDocumented(t *testing.T) {
	const source, page = "internal/controller/node/traces.go", "docs/reference/traces.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	documented := firstColumn(string(text))
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, source), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(ast.Expr); ok {
			if name, ok := textOf(literal); ok && regexp.MustCompile(`^(k8s\.)?node\.[a-z_.]+$`).MatchString(name) {
				used[name] = true
			}
		}
		return true
	})
	for name := range used {
		if documented[name] == 0 {
			t.Errorf("%s has the span or attribute %q, which is not in %s", source, name, page)
		}
	}
	for name := range documented {
		if !used[name] && name != "cloud.*" {
			t.Errorf("%s has %q, which is not in %s", page, name, source)
		}
	}
}
