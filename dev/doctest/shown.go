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

// Elsewhere are commands that other tests run, or the code behind these commands. A command that needs another machine or a registry cannot run here.
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
	followed := test("dev/doctest/quickstart_test.go", "TestProviderQuickstart")
	return map[string]Proof{
		measure: count, lines: count,
		// What TestDemos begins with.
		"make build": {"dev/demo/pages_test.go", `shell(t, "make build")`},
		// With the plugin's own module, from the same arguments; TestBuild makes an image, and TestPush pushes one to a registry.
		"bin/mooring build --with k8s.io/cloud-provider-aws/pkg/providers/v1@v1.37.0 --image ccm.tar " +
			"--image-name registry.example/ccm-aws:v1 --push": test("dev/plugins/aws/aws_test.go", "TestPluginDoesTheSame"),
		// A cluster of the reader's. TestFilesOfTheTutorial reads what is to be written for it.
		"bin/cloud-controller-manager --cloud-provider=sim --cloud-config=sim.yaml --kubeconfig=ccm.kubeconfig": program,
		"head -c 16 /dev/urandom | base64 > token":                                                              cloud,
		"bin/mooring sim serve --state-file=cloud.db --token-file=token --seed=seed.yaml":                       cloud,
		// Bare metal: the demo needs root, and the rest a rack, for which dev/e2e/metal has one of namespaces.
		"make demo ARGS=--provider=metal":                                               test("dev/demo/cmd/demo/metal_test.go", "TestDemoMetal"),
		"bin/mooring build --image ccm.tar --image-name registry.example/ccm:v1 --push": test("internal/tool/image/push_test.go", "TestPush"),
		"bin/mooring validate --cloud-config=cloud.yaml":                                test("cmd/mooring/validate_test.go", "TestValidate"),
		// OpenStack: the demo needs root and the services, which make test-openstack installs.
		`make demo ARGS="--provider=openstack --install"`: onOpenStack,
		`make demo ARGS="--provider=openstack --keep"`:    onOpenStack,
		drain: {rack, drain},
		why:   {rack, why},
		// A provider from an empty folder; this checkout stands for the clone.
		"git clone https://github.com/mooring-ccm/mooring":                                                              followed,
		"mkdir -p mycloud-ccm/mycloud && cd mycloud-ccm":                                                                followed,
		"go mod init example.com/mycloud-ccm":                                                                           followed,
		"go mod edit -require=github.com/mooring-ccm/mooring@v0.0.0 -replace=github.com/mooring-ccm/mooring=../mooring": followed,
		"go mod tidy":       followed,
		"go test ./mycloud": followed,
		"go build":          followed,
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
	"kubectl -n kube-system create configmap mooring-cloud-config --from-file=cloud.yaml",
	"kubectl -n kube-system create configmap mooring-cloud-config --from-file=cloud.yaml --dry-run=client --output=yaml | kubectl apply -f -",
	"kubectl -n kube-system describe configmap mooring-cloud-config",
	"kubectl expose deployment web --type=LoadBalancer --port=80",
	"kubectl describe service web",
	`kubectl patch service web --patch '{"spec":{"externalTrafficPolicy":"Local"}}'`,
}

// FirstKept leaves a demo running that the questions are put to which a page shows before any demo.
const FirstKept = "make demo ARGS=--keep"

// Pages are the files of a checkout whose commands are run, all of them: the README, the quickstarts and the tutorials.
func Pages(root string) ([]string, error) {
	pages := []string{filepath.Join(root, "README.md")}
	for _, folder := range []string{"quickstart", "tutorial"} {
		found, err := filepath.Glob(filepath.Join(root, "docs", folder, "*.md"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("find the pages of %s in %s: %w", folder, root, cmp.Or(err, fs.ErrNotExist))
		}
		pages = append(pages, found...)
	}
	return pages, nil
}
