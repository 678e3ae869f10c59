package doctest

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// measure is the command of the tutorial that asks for an address and notes what is lost.
const measure = `for i in $(seq 600); do curl --silent --fail --max-time 0.5 --output /dev/null http://192.0.2.1/ || date +%T.%N; ` +
	`sleep 0.05; done | tee lost`

// Looks reports whether a command is a look at a cluster, as TestDemos takes at the cluster of a demo.
func Looks(command string) bool {
	words := strings.Fields(command)
	return words[0] == "kubectl" && slices.Contains(words, "get")
}

// Proof is what runs a command, or does the same: a file, and what it has to say for that.
type Proof struct{ File, Says string }

// test is the proof by a test.
func test(file, name string) Proof { return Proof{file, "func " + name + "(t *testing.T)"} }

// Elsewhere are commands that others run, or what is behind them. Those that need another machine, half an hour or this very
// test cannot be run here.
func Elsewhere() map[string]Proof {
	const (
		rack  = "dev/e2e/metal/metal_test.go"
		drain = "kubectl annotate node n1 metal.mooring.dev/drain="
		why   = `kubectl get service web --output jsonpath='{.status.conditions[?(@.type=="metal.mooring.dev/Announced")].message}'`
	)
	program := test("dev/integration/route/program_test.go", "TestTheProgramMakesRoutesForNodesThatJoin")
	cloud := test("cmd/mooring/sim_test.go", "TestSimServe")
	count, lines := test("dev/doctest/measure_test.go", "TestTutorialMeasures"), "wc -l < lost"
	onOpenStack := test("dev/demo/cmd/demo/openstack_test.go", "TestDemoOpenStack")
	return map[string]Proof{
		measure: count, lines: count,
		// The suite is what runs this test; it must not run itself.
		"make test":  test("dev/doctest/commands_test.go", "TestEveryCommandIsRun"),
		"make bench": test("dev/bench/runner/smoke_test.go", "TestBothManagersGoThroughTheScenarios"),
		"make image": test("cmd/mooring/build_test.go", "TestBuild"),
		"make build": {"dev/demo/pages_test.go", `shell(t, "make build")`},
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

// Demos are commands that TestDemos of dev/demo runs.
var Demos = []string{
	"make demo", FirstKept,
	`make demo ARGS="--keep --cloud-fault operation=ListInstances,mode=status,status=503,count=5"`,
}

// Tried are commands that TestDemos runs in this order against the cluster of a demo, in place of a reader's own.
var Tried = []string{
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

// FirstKept leaves a demo running that the questions are put to which a page shows before any demo.
const FirstKept = "make demo ARGS=--keep"

// Pages are the files of a checkout whose commands are run, all of them: the README and the tutorials.
func Pages(root string) ([]string, error) {
	tutorials, err := filepath.Glob(filepath.Join(root, "docs", "tutorial", "*.md"))
	if err != nil || len(tutorials) == 0 {
		return nil, fmt.Errorf("find the tutorials of %s: %w", root, cmp.Or(err, fs.ErrNotExist))
	}
	return append(tutorials, filepath.Join(root, "README.md")), nil
}
