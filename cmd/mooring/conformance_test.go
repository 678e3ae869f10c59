package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// holds checks that a simulated cloud has its instances and nothing else.
func holds(t *testing.T, simulated *simtest.Cloud, instances int) {
	t.Helper()
	found, others := 0, 0
	client, ctx := simulated.Client, t.Context()
	if err := client.ListInstances(ctx, func(page []api.Instance) error { found += len(page); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := client.ListLoadBalancers(ctx, nil, func(page []api.LoadBalancer) error { others += len(page); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := client.ListRoutes(ctx, "", func(page []api.Route) error { others += len(page); return nil }); err != nil {
		t.Fatal(err)
	}
	if found != instances || others != 0 {
		t.Errorf("the cloud holds %d instances, want %d, and %d load balancers and routes", found, instances, others)
	}
}

// otherConfig is a cloud config for another cluster in the same cloud.
func otherConfig(t *testing.T, simulated *simtest.Cloud) string {
	t.Helper()
	data, err := os.ReadFile(simulated.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, strings.Replace(string(data), "clusterName: "+simtest.ClusterName, "clusterName: other", 1))
}

// The command tries against an account what needs no hooks, removes what it made, and reports.
func TestConformance(t *testing.T) {
	simulated := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	junit := filepath.Join(t.TempDir(), "report.xml")
	code, stdout, stderr := programtest.Call(t, newRoot(), "conformance", "--cloud-provider=sim", "--cloud-config="+simulated.ConfigFile, "--propagation-timeout=5s",
		"--other-cloud-config="+otherConfig(t, simulated), "--junit="+junit, "--skip=legacy-missing=not of interest")
	if code != cli.ExitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"passed   instances-found-by-name (", "passed   balancer-other-cluster (", "passed   routes-replaced (",
		" 0 failed, ", " 0 broke",
		"not run  instances-deleted: only a provider's own test can give the hook that this needs: CreateInstance", "not run  legacy-missing: left out: not of interest",
		"What the provider bears:\n", "  reads-at-once  16 at once, each with its own answer", `ProviderIDSchemes: []string{"sim"},`,
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the report does not say %q:\n%s", want, stdout)
		}
	}
	report, err := os.ReadFile(junit)
	if err != nil || !strings.Contains(string(report), `<testcase name="routes-replaced" classname="sim.routes"`) {
		t.Errorf("JUnit: %v\n%s", err, report)
	}
	holds(t, simulated, 3)
}

// A rule that is broken is named, and ends the command with exit code 1.
func TestConformanceFails(t *testing.T) {
	simulated := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	fault := api.Fault{Operation: api.OpDeleteRoute, Mode: api.FaultStatus, Status: 503, Count: 1}
	if err := simulated.Service.AddFault(fault); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := programtest.Call(t, newRoot(), "conformance", "--cloud-provider=sim", "--cloud-config="+simulated.ConfigFile,
		"--rule=routes-deleted", "--node=node-001", "--propagation-timeout=5s")
	if code != cli.ExitFailed || !strings.Contains(stderr, "provider sim does not conform: 0 rules passed, 1 failed") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if !strings.Contains(stdout, "source: cloudprovider.Routes.DeleteRoute") || !strings.Contains(stdout, "seen: DeleteRoute: ") {
		t.Errorf("the report:\n%s", stdout)
	}
	holds(t, simulated, 1)
}

// An interrupt ends the command soon, and what was made is removed all the same.
func TestConformanceInterrupted(t *testing.T) {
	simulated := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	err := simulated.Service.SetKnobs(api.Knobs{LoadBalancerDelay: metav1.Duration{Duration: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	p := programtest.Start(t, "conformance", "--cloud-provider=sim", "--cloud-config="+simulated.ConfigFile, "--rule=balancer-status")
	simtest.Eventually(t, "it makes a load balancer", func(context.Context) bool {
		return simulated.Service.Counts().Received(api.OpCreateLoadBalancer) > 0
	})
	p.Signal(syscall.SIGTERM)
	if code := p.Exit(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	p.Await("interrupted")
	holds(t, simulated, 1)
}

func TestConformanceLists(t *testing.T) {
	code, stdout, _ := programtest.Call(t, newRoot(), "conformance", "--list")
	if code != cli.ExitOK || !strings.Contains(stdout, "routes-name-ignored\n") ||
		!strings.Contains(stdout, `"route.Name will be ignored"`) {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
}

func TestConformanceCommandLinesThatAreWrong(t *testing.T) {
	config := write(t, "")
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"nothing": {nil, []string{"--cloud-provider: required"}},
		"all at once": {
			[]string{"--cloud-provider=fog", "--cloud-config=/nowhere/config", "--propagation-timeout=-1s", "--skip=routes-created",
				"--rule=routes-flown"},
			[]string{
				`--cloud-provider: "fog": not in this program, which has sim; `, "--cloud-config: stat /nowhere/config", "propagation timeout -1s, rule", "must be ID=REASON",
				`there is no rule "routes-flown"`,
			},
		},
	} {
		code, _, stderr := programtest.Call(t, newRoot(), append([]string{"conformance"}, c.args...)...)
		if code != cli.ExitUsage {
			t.Errorf("%s: exit code %d, want %d", name, code, cli.ExitUsage)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: the error does not say %q:\n%s", name, want, stderr)
			}
		}
	}
	if code, _, stderr := programtest.Call(t, newRoot(), "conformance", "--cloud-provider=sim", "--cloud-config="+config); code != cli.ExitFailed ||
		!strings.Contains(stderr, `cloud provider "sim"`) {
		t.Errorf("a config that is no config: exit code %d: %s", code, stderr)
	}
}

// Without a node most rules cannot be tried: that is said before the first one is.
func TestConformanceWithoutANode(t *testing.T) {
	empty := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(0)})
	code, stdout, stderr := callWith(t, "", "conformance", "--cloud-provider=sim", "--cloud-config="+empty.ConfigFile, "--rule=instances-found-by-name")
	if code != cli.ExitFailed || !strings.HasPrefix(stderr, "most rules need an instance: give --node=NAME") {
		t.Errorf("exit code %d: %s\n%s", code, stderr, stdout)
	}
}
