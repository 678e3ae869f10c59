package mutants_test

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/chaos/mutants"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

// Each mutant fits the source as it is now, and its schedule can be read. That each is found takes minutes: make mutants.
func TestMutantsFit(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err := mutants.Root(dir)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(root + "/dev/docs/chaos.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range mutants.All() {
		changed, err := m.Source(root)
		if err != nil {
			t.Errorf("mutant %s: %v", m.Name, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, changed, 0); err != nil {
			t.Errorf("mutant %s: %v", m.Name, err)
		}
		if _, err := schedule.Parse(strings.NewReader(m.Schedule)); err != nil {
			t.Errorf("mutant %s: %v", m.Name, err)
		}
		if seen[m.Name] || !strings.Contains(string(page), "| `"+m.Name+"` | "+m.What+" |") {
			t.Errorf("mutant %s is there twice, or dev/docs/chaos.md does not say: %s", m.Name, m.What)
		}
		seen[m.Name] = true
	}
}
