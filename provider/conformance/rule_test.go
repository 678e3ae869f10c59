package conformance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/provider/conformance"
)

// sources are the files that rules quote, by the first word of what is quoted: a module and a pattern of files in it.
var sources = map[string]struct{ module, files string }{
	"cloudprovider": {"k8s.io/cloud-provider", "cloud.go"},
	"v1":            {"k8s.io/api", "core/v1/types.go"},
	"provider":      {"github.com/mooring-ccm/mooring", "provider/*.go"},
}

// TestSourcesSayIt finds the quote of every rule, word for word, in the documentation that it names.
func TestSourcesSayIt(t *testing.T) {
	texts := map[string]string{}
	for name, source := range sources {
		texts[name] = comments(t, source.module, source.files)
	}
	for _, rule := range conformance.Rules() {
		of := strings.TrimPrefix(rule.Source.Of, "package ")
		name, _, _ := strings.Cut(of, ".")
		if text, ok := texts[name]; !ok || !strings.Contains(text, strings.Join(strings.Fields(rule.Source.Quote), " ")) {
			t.Errorf("rule %s: the documentation of %s does not say %q", rule.ID, of, rule.Source.Quote)
		}
		for _, part := range strings.Split(of, ".")[1:] {
			if !strings.Contains(texts[name], part) {
				t.Errorf("rule %s: there is no %s in %s", rule.ID, part, of)
			}
		}
	}
}

var commentMark = regexp.MustCompile(`(?m)^\s*//\s?`)

// comments returns Go files of a module as one line of text, without the marks of comments.
func comments(t *testing.T, module, files string) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("where is module %s: %v", module, err)
	}
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), files))
	if err != nil || len(paths) == 0 {
		t.Fatalf("files %s of module %s: %d, %v", files, module, len(paths), err)
	}
	var all []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Fields(commentMark.ReplaceAllString(string(data), ""))...)
	}
	return strings.Join(all, " ")
}

// TestReferenceIsUpToDate looks that docs/reference/conformance.md shows the rules as they are.
func TestReferenceIsUpToDate(t *testing.T) {
	const file = "../../docs/reference/conformance.md"
	command := exec.CommandContext(t.Context(), "go", "run", "../../dev/docgen/rules", "--check", "--file", file)
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as programs are shipped, so the build cache has it
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// TestRulesAreComplete looks that every rule has all its parts, and an ID of its own.
func TestRulesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	format := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)
	for _, rule := range conformance.Rules() {
		if !format.MatchString(rule.ID) || seen[rule.ID] {
			t.Errorf("rule %q: the ID is taken or not of the form %s", rule.ID, format)
		}
		if !strings.HasSuffix(rule.Text, ".") || rule.Source.Of == "" || rule.Source.Quote == "" {
			t.Errorf("rule %s is not complete: %+v", rule.ID, rule)
		}
		seen[rule.ID] = true
	}
}
