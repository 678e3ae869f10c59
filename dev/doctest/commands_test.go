package doctest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

func TestCommands(t *testing.T) {
	page := "# Title\n\nText\n    that goes on\n\n    make demo\n    # a comment\n\n```go\nfunc main()\n```\n\n" +
		"```sh\nkubectl get \\\n  nodes\n```\n\n1. Item:\n\n       bin/x\n\nEnd.\n"
	if diff := cmp.Diff([]string{"make demo", "kubectl get nodes", "bin/x"}, Commands(page)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// rendered reports whether a command is one of Helm's for the chart: dev/chart renders the chart with the values of each.
func rendered(command string) bool {
	words := strings.Fields(command)
	return len(words) > 1 && words[0] == "helm" && (words[1] == "install" || words[1] == "upgrade")
}

// TestEveryCommandIsRun knows of each command who runs it, and that no list here is out of date.
func TestEveryCommandIsRun(t *testing.T) {
	tested, shown := Elsewhere(), map[string]bool{}
	for _, command := range slices.Concat(Demos, Tried) {
		shown[command] = false
	}
	for command := range tested {
		shown[command] = false
	}
	paths, err := Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range Commands(string(page)) {
			if _, known := shown[command]; known {
				shown[command] = true
			} else if !Looks(command) && !rendered(command) {
				t.Errorf("%s shows %q, which no test runs: add it to this file with the test that does", path, command)
			}
		}
	}
	for command, found := range shown {
		if !found {
			t.Errorf("no page shows %q", command)
		}
	}
	for command, by := range tested {
		if text, err := os.ReadFile(filepath.Join(root, by.File)); err != nil || !strings.Contains(string(text), by.Says) {
			t.Errorf("%s: %s does not say %s (%v)", command, by.File, by.Says, err)
		}
	}
}
