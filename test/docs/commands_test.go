package docs

import (
	"os"
	"path/filepath"
	"regexp"
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

func TestParseGet(t *testing.T) {
	for command, want := range map[string]Get{
		"kubectl get nodes -L a,b":                       {Resource: "nodes"},
		"kubectl -n kube-system get lease x -o yaml":     {Namespace: "kube-system", Resource: "lease", Name: "x"},
		"kubectl get events --field-selector source=abc": {Resource: "events", FieldSelector: "source=abc"},
	} {
		if got, ok := ParseGet(command); !ok || got != want {
			t.Errorf("%s: %v, %t", command, got, ok)
		}
	}
	for _, command := range []string{"kubectl delete node x", "make get nodes", "kubectl get nodes --watch now", "kubectl get"} {
		if got, ok := ParseGet(command); ok {
			t.Errorf("%s is taken for %v", command, got)
		}
	}
}

// elsewhere are commands that other tests run, or what is behind them, by the file and the name of the test. Those that need
// another machine, half an hour or this very test cannot be run here.
func elsewhere() map[string]struct{ file, test string } {
	return map[string]struct{ file, test string }{
		// The suite is what runs this test; it must not run itself.
		"make test":  {"test/docs/commands_test.go", "TestEveryCommandIsRun"},
		"make bench": {"test/bench/runner/smoke_test.go", "TestBothManagersGoThroughTheScenarios"},
		"make image": {"cmd/mooring/build_test.go", "TestBuild"},
		// With the plugin's own module, from the same arguments.
		"bin/mooring build --with k8s.io/cloud-provider-aws/pkg/providers/v1@v1.37.0": {
			"test/plugins/aws/aws_test.go", "TestPluginDoesTheSame",
		},
		"bin/cloud-controller-manager --cloud-provider=sim --cloud-config=sim.yaml --kubeconfig=ccm.kubeconfig": {
			"test/integration/route/program_test.go", "TestTheProgramMakesRoutesForNodesThatJoin",
		},
	}
}

// here are commands that TestDemos runs.
var here = []string{
	"make demo", "make demo ARGS=--keep",
	"bin/mooring demo --cloud-fault operation=ListInstances,mode=status,status=503,count=5",
}

// pages are those whose commands are run, all of them.
func pages(t *testing.T) []string {
	t.Helper()
	tutorials, err := filepath.Glob(filepath.Join(root, "docs", "tutorial", "*.md"))
	if err != nil || len(tutorials) == 0 {
		t.Fatalf("no tutorials: %v", err)
	}
	return append(tutorials, filepath.Join(root, "README.md"))
}

// TestEveryCommandIsRun knows of each command who runs it, and that no list here is out of date.
func TestEveryCommandIsRun(t *testing.T) {
	tested, shown := elsewhere(), map[string]bool{}
	for _, command := range here {
		shown[command] = false
	}
	for command := range tested {
		shown[command] = false
	}
	for _, path := range pages(t) {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range Commands(string(page)) {
			if _, known := shown[command]; known {
				shown[command] = true
			} else if _, ok := ParseGet(command); !ok {
				t.Errorf("%s shows %q, which no test runs: add it to this file with the test that does", path, command)
			}
		}
	}
	for command, found := range shown {
		if !found {
			t.Errorf("no page shows %q any more", command)
		}
	}
	for command, by := range tested {
		source, err := os.ReadFile(filepath.Join(root, by.file))
		if err != nil || !regexp.MustCompile(`(?m)^func `+by.test+`\(t \*testing\.T\)`).Match(source) {
			t.Errorf("%s: %s has no %s (%v)", command, by.file, by.test, err)
		}
	}
}
