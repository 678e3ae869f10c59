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

// looks reports whether a command is a look at a cluster, which TestDemos takes at that of a demo.
func looks(command string) bool {
	words := strings.Fields(command)
	return words[0] == "kubectl" && slices.Contains(words, "get")
}

// proof is what runs a command, or does the same: a file, and what it has to say for that.
type proof struct{ file, says string }

// test is the proof by a test.
func test(file, name string) proof { return proof{file, "func " + name + "(t *testing.T)"} }

// elsewhere are commands that others run, or what is behind them. Those that need another machine, half an hour or this very
// test cannot be run here.
func elsewhere() map[string]proof {
	const (
		rack  = "dev/e2e/metal/metal_test.go"
		drain = "kubectl annotate node n1 metal.mooring.dev/drain="
		why   = `kubectl get service web --output jsonpath='{.status.conditions[?(@.type=="metal.mooring.dev/Announced")].message}'`
	)
	program := test("dev/integration/route/program_test.go", "TestTheProgramMakesRoutesForNodesThatJoin")
	cloud := test("cmd/mooring/sim_test.go", "TestSimServe")
	count, lines := test("dev/doctest/measure_test.go", "TestTutorialMeasures"), "wc -l < lost"
	onOpenStack := test("dev/demo/cmd/demo/openstack_test.go", "TestDemoOpenStack")
	return map[string]proof{
		measure: count, lines: count,
		// The suite is what runs this test; it must not run itself.
		"make test":  test("dev/doctest/commands_test.go", "TestEveryCommandIsRun"),
		"make bench": test("dev/bench/runner/smoke_test.go", "TestBothManagersGoThroughTheScenarios"),
		"make image": test("cmd/mooring/build_test.go", "TestBuild"),
		"make build": {"dev/doctest/demos_test.go", `shell(t, "make build")`},
		// With the plugin's own module, from the same arguments.
		"bin/mooring build --with k8s.io/cloud-provider-aws/pkg/providers/v1@v1.37.0": test(
			"dev/plugins/aws/aws_test.go", "TestPluginDoesTheSame"),
		// A cluster of the reader's. TestFilesOfTheTutorial reads what is to be written for it.
		"bin/cloud-controller-manager --cloud-provider=sim --cloud-config=sim.yaml --kubeconfig=ccm.kubeconfig": program,
		"head -c 16 /dev/urandom | base64 > token":                                                              cloud,
		"bin/mooring sim serve --state-file=cloud.db --token-file=token --seed=seed.yaml":                       cloud,
		// Bare metal: the demo needs root, and the rest a rack, for which dev/e2e/metal has one of namespaces.
		"make demo ARGS=--provider=metal": test("dev/demo/cmd/demo/metal_test.go", "TestDemoMetal"),
		// OpenStack: the demo needs root and the services, which make test-openstack installs.
		`make demo ARGS="--provider=openstack --install"`: onOpenStack,
		`make demo ARGS="--provider=openstack --keep"`:    onOpenStack,
		drain: {rack, drain},
		why:   {rack, why},
	}
}

// rendered reports whether a command is one of Helm's for the chart: dev/chart renders the chart with the values of each.
func rendered(command string) bool {
	words := strings.Fields(command)
	return len(words) > 1 && words[0] == "helm" && (words[1] == "install" || words[1] == "upgrade")
}

// demos are commands that TestDemos runs.
var demos = []string{
	"make demo", firstKept,
	`make demo ARGS="--keep --cloud-fault operation=ListInstances,mode=status,status=503,count=5"`,
}

// tried are commands that TestDemos runs in this order against the cluster of a demo, in place of a reader's own.
var tried = []string{
	"bin/mooring status",
	"kubectl apply -f deploy/rbac.yaml",
	"kubectl config view --minify --flatten > ccm.kubeconfig",
	`kubectl --kubeconfig=ccm.kubeconfig config set-credentials ccm ` +
		`--token="$(kubectl -n kube-system create token cloud-controller-manager)"`,
	"kubectl --kubeconfig=ccm.kubeconfig config set-context --current --user=ccm",
	"kubectl -n kube-system create secret generic cloud-config --from-file=cloud.yaml",
	"kubectl -n kube-system create secret generic bmc --from-file=password --from-file=ca.pem",
	"kubectl expose deployment web --type=LoadBalancer --port=80",
	`kubectl patch service web --patch '{"spec":{"externalTrafficPolicy":"Local"}}'`,
}

// firstKept leaves a demo running that the questions are put to which a page shows before any demo.
const firstKept = "make demo ARGS=--keep"

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
	for _, command := range slices.Concat(demos, tried) {
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
			} else if !looks(command) && !rendered(command) {
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
		if text, err := os.ReadFile(filepath.Join(root, by.file)); err != nil || !strings.Contains(string(text), by.says) {
			t.Errorf("%s: %s does not say %s (%v)", command, by.file, by.says, err)
		}
	}
}
