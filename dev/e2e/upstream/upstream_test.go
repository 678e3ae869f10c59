// Package upstream_test runs Kubernetes' own end-to-end tests on a cluster in network namespaces: a control plane with a scheduler and DNS, three
// nodes with a container runtime, a kubelet and kube-proxy each, a router, a client, and two replicas of Mooring. The tests are built from Kubernetes'
// module. MOORING_UPSTREAM says which specs run: few, or all. Without it, few run in one set-up.
package upstream_test

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/e2e/rack"
	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
)

// specsVariable chooses the specs.
const specsVariable = "MOORING_UPSTREAM"

// setup is how packets reach the nodes.
type setup struct {
	router router.Kind
	// proxy is kube-proxy's mode.
	proxy string
	// byAddress has the router spread packets by addresses alone. Else ports count, too.
	byAddress bool
	// layer2 has Mooring answer ARP and NDP for a client on the nodes' own segment.
	layer2 bool
	// simulated has the simulated cloud instead of bare metal. The router does as the cloud says.
	simulated bool
	// single has IPv4 alone on nodes and pods.
	single bool
	// always has few specs run with all other tests of the project.
	always bool
	// cannot are regular expressions of specs that cannot pass.
	cannot []string
}

// specs are some of Kubernetes' specs.
type specs struct {
	name string
	// focus and skip are regular expressions of their names.
	focus, skip string
	// provider is the cloud that they believe to run on. Some run on a few clouds only.
	provider string
	// parallel is how many run at once.
	parallel int
	timeout  time.Duration
}

// few are what make test-e2e runs.
var few = specs{
	name: "few", provider: "skeleton", parallel: 3, timeout: 8 * time.Minute,
	focus: "change the type and ports of a TCP service|session affinity work for LoadBalancer service with Cluster|" +
		"ExternalTrafficPolicy: Local.*should work for type=LoadBalancer",
}

// deletion deletes a machine for good. Its set-up has a node less afterwards.
var deletion = specs{name: "deletion", provider: "aws", parallel: 1, timeout: 6 * time.Minute, focus: "Feature:CloudProvider"}

// These specs cannot pass in some set-ups. docs/reference/conformance-kubernetes.md has the reasons.
const (
	healthOnEveryAddress = "should only target nodes with endpoints"
	reachesTwoNodes      = "should target all nodes with endpoints|switch session affinity for LoadBalancer service with Local"
	clientElsewhere      = "ExternalTrafficPolicy: Local.*should work for type=LoadBalancer"
	affinity             = "session affinity"
	withoutNodePort      = "without NodePort"
	twoFamilies          = "at least one dual-stack node"
)

var (
	// balancers are the specs of load balancers, but for updates.
	balancers = specs{
		name: "balancers", provider: "skeleton", parallel: 6, timeout: 18 * time.Minute, focus: "Feature:LoadBalancer", skip: updates.focus,
	}
	// updates replaces Pods that take a minute to end, on all nodes, five times.
	updates = specs{name: "updates", provider: "skeleton", parallel: 2, timeout: 25 * time.Minute, focus: "connectivity disruption during rolling update"}
	// nodes are the specs that need what a cloud controller manager writes to nodes, zones and addresses, and one for Deployments that runs on a few
	// clouds only.
	nodes = specs{
		name: "nodes", provider: "aws", parallel: 3, timeout: 12 * time.Minute,
		focus: "not disrupt a cloud load-balancer|Traffic Distribution should route|Topology Hints should|functioning NodePort service|at least one dual-stack node",
	}
)

func TestFRRWithIptables(t *testing.T) {
	run(t, setup{router: router.FRR, proxy: "iptables", always: true, cannot: []string{healthOnEveryAddress}})
}

func TestBIRDWithNftables(t *testing.T) {
	run(t, setup{router: router.BIRD, proxy: "nftables", byAddress: true, cannot: []string{healthOnEveryAddress, reachesTwoNodes}})
}

func TestLayer2(t *testing.T) {
	run(t, setup{router: router.FRR, proxy: "iptables", layer2: true, cannot: []string{healthOnEveryAddress, reachesTwoNodes, clientElsewhere}})
}

func TestIPv4(t *testing.T) {
	run(t, setup{router: router.FRR, proxy: "iptables", single: true, cannot: []string{twoFamilies}})
}

func TestSimulatedCloud(t *testing.T) {
	run(t, setup{router: router.FRR, proxy: "iptables", simulated: true, cannot: []string{healthOnEveryAddress, affinity, withoutNodePort}})
}

// run runs specs in a set-up: few of them, or all.
func run(t *testing.T, s setup) {
	t.Helper()
	chosen := os.Getenv(specsVariable)
	switch {
	case chosen == "" && !s.always:
		t.Skip(specsVariable + " is not set: make test-e2e runs this set-up")
	case chosen != "" && chosen != "few" && chosen != "all":
		t.Fatalf("%s is %q, want few or all", specsVariable, chosen)
	}
	l := enter(t, s)
	if l == nil {
		return
	}
	if chosen == "all" {
		l.all(t)
	} else {
		t.Run(few.name, func(t *testing.T) { l.try(t, few) })
	}
	for _, program := range l.programs {
		if err := program.Runs(); err != nil {
			t.Error(err)
		}
	}
}

// all runs all specs. Updates mostly wait, so the others run beside them: each spec has a namespace of its own.
func (l *fixture) all(t *testing.T) {
	t.Run("beside", func(t *testing.T) {
		t.Run(updates.name, func(t *testing.T) {
			t.Parallel()
			l.try(t, updates)
		})
		t.Run("others", func(t *testing.T) {
			t.Parallel()
			for _, group := range []specs{balancers, nodes} {
				t.Run(group.name, func(t *testing.T) { l.try(t, group) })
			}
		})
	})
	t.Run(deletion.name, func(t *testing.T) { l.try(t, deletion) })
}

// try runs specs from the client's network, and reports each.
func (l *fixture) try(t *testing.T, group specs) {
	dir := filepath.Join(l.dir, group.name)
	must.NoError(t, os.MkdirAll(dir, 0o755))
	log := must.Value(os.Create(filepath.Join(dir, "ginkgo.log")))(t)
	defer log.Close()
	args := append(l.outside.Args(), l.program("ginkgo"), "--procs", strconv.Itoa(group.parallel), "--focus", group.focus)
	for _, skip := range append(slices.Clone(l.cannot), group.skip) {
		if skip != "" {
			args = append(args, "--skip", skip)
		}
	}
	args = append(args, "-v", "--no-color", "--timeout", group.timeout.String(), "--output-interceptor-mode=none", "--junit-report=junit.xml",
		"--output-dir", dir, l.program("e2e.test"), "--", "--provider="+group.provider, "--kubeconfig="+l.cluster.AdminKubeconfig(),
		"--kubectl-path="+localclustertest.Build(t, localcluster.Client).Program("kubectl"), "--disable-log-dump", "--dns-domain=cluster.local",
		"--num-nodes="+strconv.Itoa(rack.Nodes))
	command := exec.CommandContext(t.Context(), args[0], args[1:]...)
	command.Env = append(os.Environ(), "HOME="+l.dir, "KUBECONFIG="+l.cluster.AdminKubeconfig(), "DELETE_NODE="+l.deletions)
	command.Dir, command.Stdout, command.Stderr = dir, log, log
	ended := command.Run()
	ran := report(t, filepath.Join(dir, "junit.xml"))
	if ended != nil || ran == 0 {
		text, _ := os.ReadFile(log.Name())
		t.Errorf("%d specs ran, %v: the end of %s:\n%s", ran, ended, log.Name(), text[max(0, len(text)-5000):])
	}
}

// report logs how each spec ended that ran, and returns how many did.
func report(t *testing.T, file string) int {
	t.Helper()
	var suites struct {
		Cases []struct {
			Name    string  `xml:"name,attr"`
			Status  string  `xml:"status,attr"`
			Seconds float64 `xml:"time,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = xml.Unmarshal(text, &suites)
	}
	if err != nil {
		t.Errorf("read the report: %v", err)
		return 0
	}
	ran := 0
	for _, c := range suites.Cases {
		name, spec := strings.CutPrefix(c.Name, "[It] ")
		switch {
		case c.Failure != nil:
			ran++
			t.Errorf("FAIL %4.0f s  %s: %s", c.Seconds, name, c.Failure.Message)
		case !spec || c.Skipped != nil && c.Seconds == 0:
		case c.Skipped != nil:
			t.Logf("SKIP %4.0f s  %s: %s", c.Seconds, name, c.Skipped.Message)
		default:
			ran++
			t.Logf("PASS %4.0f s  %s (%s)", c.Seconds, name, c.Status)
		}
	}
	return ran
}
