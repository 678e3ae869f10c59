package conformance_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/provider/conformance"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// check tries rules on a mutant, and returns the report.
func check(t *testing.T, m *mutant, options conformance.Options) *conformance.Report {
	t.Helper()
	if options.PropagationTimeout == 0 {
		options.PropagationTimeout = 300 * time.Millisecond
	}
	factory := func(context.Context) (*conformance.Subject, error) { return m.subject, nil }
	report, err := conformance.Check(t.Context(), factory, options)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func newMutant(t *testing.T) (*mutant, *simtest.Cloud) {
	t.Helper()
	simulated := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	m := &mutant{Cloud: newSim(t, simulated, ""), second: make(chan struct{})}
	m.subject = subjectOf(t, simulated, m)
	return m, simulated
}

// What a subject does not offer is reported as not run with the reason, never as passed.
func TestWhatIsNotOfferedIsNotRun(t *testing.T) {
	m, _ := newMutant(t)
	m.subject.Hooks = conformance.Hooks{}
	m.capabilities = func(c *provider.Capabilities) { *c = provider.Capabilities{ProviderIDSchemes: c.ProviderIDSchemes} }
	want := map[string]string{
		"provider-named":                  "",
		"instances-missing":               "",
		"instances-found-by-name":         "the factory creates no instance and names none: an instance",
		"instances-deleted":               "only a provider's own test can give the hook that this needs: CreateInstance",
		"instances-failure-is-no-absence": "the factory creates no instance and names none: an instance",
		"list-complete":                   "the provider's capabilities have no ListInstances",
		"watch-marks":                     "the provider's capabilities have no WatchInstances",
		"balancer-absent":                 "",
		"routes-black-hole":               "only a provider's own test can give the hook that this needs: CreateInstance",
	}
	found := 0
	for _, result := range check(t, m, conformance.Options{PropagationTimeout: conformance.DefaultPropagationTimeout}).Results {
		if !result.OK() {
			t.Errorf("%s: %s %q %q", result.Rule.ID, result.Outcome, result.Reason, result.Findings)
		}
		reason, ok := want[result.Rule.ID]
		if !ok {
			continue
		}
		found++
		outcome := conformance.NotRun
		if reason == "" {
			outcome = conformance.Passed
		}
		if result.Outcome != outcome || result.Reason != reason {
			t.Errorf("%s: %s %q %q, want %q", result.Rule.ID, result.Outcome, result.Reason, result.Findings, reason)
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d rules were reported", found, len(want))
	}
}

// olderInterfaces is a provider that has Instances and Zones only.
type olderInterfaces struct{ cloudprovider.Interface }

func (olderInterfaces) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// A provider of the older interfaces keeps to all that is about them, load balancers and routes.
func TestOlderInterfaces(t *testing.T) {
	m, simulated := newMutant(t)
	m.subject.Cloud = olderInterfaces{m.Cloud}
	report := check(t, m, conformance.Options{PropagationTimeout: conformance.DefaultPropagationTimeout})
	passed := map[string]bool{}
	for _, result := range report.Results {
		if !result.OK() {
			t.Errorf("%s: %s %q %q", result.Rule.ID, result.Outcome, result.Reason, result.Findings)
		}
		passed[result.Rule.ID] = result.Outcome == conformance.Passed
	}
	for _, id := range []string{"legacy-id", "legacy-deleted", "zones-ways-agree", "balancer-update-targets", "routes-several"} {
		if !passed[id] {
			t.Errorf("%s has not passed", id)
		}
	}
	if passed["instances-missing"] || passed["legacy-agrees-with-v2"] {
		t.Error("rules about InstancesV2 have passed")
	}
	if left := leftIn(t, simulated); left != "1 instances, 0 load balancers, 0 routes" {
		t.Errorf("afterwards the cloud holds %s", left)
	}
}

// Answers that a provider knows without its cloud are right while the cloud fails.
func TestCachedAnswersAreRight(t *testing.T) {
	m, _ := newMutant(t)
	m.v2.exists = func(context.Context, right2, *v1.Node) (bool, error) { return true, nil }
	rules := []string{"instances-context", "instances-failure-is-no-absence", "instances-throttled", "instances-deadline"}
	if report := check(t, m, conformance.Options{Rules: rules}); report.Count(conformance.Passed) != len(rules) {
		t.Errorf("%s: %+v", report.Summary(), report.Results)
	}
}

// Instances that the subject names do for the rules that change none.
func TestNamedInstances(t *testing.T) {
	m, simulated := newMutant(t)
	m.subject.Hooks = conformance.Hooks{}
	m.subject.Instances = []conformance.Instance{{NodeName: "node-001"}}
	report := check(t, m, conformance.Options{Rules: []string{
		"instances-found-by-provider-id", "legacy-id", "balancer-ensured-exists", "balancer-update-targets", "routes-created",
	}})
	const reason = "the factory creates no instances and names fewer than two instances"
	if report.Count(conformance.Passed) != 4 || report.Results[3].Reason != reason {
		t.Errorf("%s: %+v", report.Summary(), report.Results)
	}
	if left := leftIn(t, simulated); left != "1 instances, 0 load balancers, 0 routes" {
		t.Errorf("afterwards the cloud holds %s", left)
	}
}

// Load balancers that something else makes are not this provider's to be right about.
func TestImplementedElsewhere(t *testing.T) {
	m, _ := newMutant(t)
	m.balancer.ensure = func(context.Context, rightLB, string, *v1.Service, []*v1.Node) (*v1.LoadBalancerStatus, error) {
		return nil, cloudprovider.ImplementedElsewhere
	}
	for _, rule := range []string{"balancer-ensured-exists", "balancer-concurrent", "balancer-protocols", "balancer-families"} {
		result := check(t, m, conformance.Options{Rules: []string{rule}}).Results[0]
		if result.Outcome != conformance.NotRun || !strings.Contains(result.Reason, "implemented elsewhere") {
			t.Errorf("%s: %s %q %q", rule, result.Outcome, result.Reason, result.Findings)
		}
	}
}

// A hook that fails says nothing about the provider; a panic of the provider does. Neither ends the run.
func TestWhatBreaks(t *testing.T) {
	m, _ := newMutant(t)
	m.name = func() string { panic("no name") }
	m.subject.Hooks.StopInstance = func(context.Context, conformance.Instance) error { return errors.New("no such button") }
	closed := 0
	m.subject.Close = func(context.Context) error { closed++; return nil }
	report := check(t, m, conformance.Options{Rules: []string{"provider-named", "instances-stopped-exist", "instances-missing"}})
	named, stopped := report.Results[0], report.Results[2]
	if named.Outcome != conformance.Failed || !strings.Contains(named.Findings[0], "the provider panicked: no name") {
		t.Errorf("a panic: %s %q", named.Outcome, named.Findings)
	}
	if stopped.Outcome != conformance.Broken || stopped.Reason != "the factory's hook StopInstance: no such button" {
		t.Errorf("a hook that fails: %s %q", stopped.Outcome, stopped.Reason)
	}
	if report.OK() || closed != 3 {
		t.Errorf("ok %t, %d subjects closed", report.OK(), closed)
	}
	failing := func(context.Context) (*conformance.Subject, error) { return nil, nil }
	report, err := conformance.Check(t.Context(), failing, conformance.Options{Rules: []string{"provider-named"}})
	if err != nil || report.Results[0].Outcome != conformance.Broken {
		t.Errorf("a factory that returns nothing: %+v, %v", report, err)
	}
}

// What is made is removed also when the run is interrupted; what cannot be removed is named.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	m, simulated := newMutant(t)
	ctx, interrupt := context.WithCancel(t.Context())
	m.balancer.get = func(ctx context.Context, right rightLB, cluster string, service *v1.Service,
	) (*v1.LoadBalancerStatus, bool, error) {
		interrupt()
		return right.GetLoadBalancer(ctx, cluster, service)
	}
	factory := func(context.Context) (*conformance.Subject, error) { return m.subject, nil }
	report, err := conformance.Check(ctx, factory, conformance.Options{Rules: []string{"balancer-ensured-exists", "routes-created"}})
	if err != nil || report.Count(conformance.Broken) != 2 || len(report.NotRemoved()) != 0 {
		t.Errorf("%v, %s", err, report.Summary())
	}
	if left := leftIn(t, simulated); left != "1 instances, 0 load balancers, 0 routes" {
		t.Errorf("afterwards the cloud holds %s", left)
	}
}

// The cloud may go on with a call that the interrupt cut. What that made is removed, too.
func TestWhatACutCallMakesIsRemoved(t *testing.T) {
	m, simulated := newMutant(t)
	ctx, interrupt := context.WithCancel(t.Context())
	removed, made := make(chan struct{}), make(chan error, 1)
	m.balancer.ensure = func(ctx context.Context, right rightLB, cluster string, service *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
		interrupt()
		go func() {
			<-removed
			_, err := right.EnsureLoadBalancer(context.WithoutCancel(ctx), cluster, service, nil)
			made <- err
		}()
		return nil, ctx.Err()
	}
	removals := 0
	m.balancer.remove = func(ctx context.Context, right rightLB, cluster string, service *v1.Service) error {
		err := right.EnsureLoadBalancerDeleted(ctx, cluster, service)
		if removals++; removals == 1 {
			close(removed)
		}
		return err
	}
	factory := func(context.Context) (*conformance.Subject, error) { return m.subject, nil }
	report, err := conformance.Check(ctx, factory, conformance.Options{Rules: []string{"balancer-ensured-exists"}})
	if err != nil || report.Count(conformance.Broken) != 1 || len(report.NotRemoved()) != 0 {
		t.Errorf("%v, %s", err, report.Summary())
	}
	if err := <-made; err != nil {
		t.Errorf("the call that was cut: %v", err)
	}
	if left := leftIn(t, simulated); left != "1 instances, 0 load balancers, 0 routes" {
		t.Errorf("afterwards the cloud holds %s", left)
	}
}

func TestWhatIsNotRemovedIsNamed(t *testing.T) {
	m, _ := newMutant(t)
	m.balancer.remove = func(context.Context, rightLB, string, *v1.Service) error { return errors.New("locked") }
	report := check(t, m, conformance.Options{Rules: []string{"balancer-status"}})
	if left := report.NotRemoved(); len(left) != 1 || !strings.Contains(left[0], "load balancer of service balancer-status-") ||
		!strings.Contains(left[0], "locked") || report.OK() {
		t.Errorf("left behind: %q", left)
	}
}

// The suite deletes no route that existed before the run.
func TestRoutesOfOthersStay(t *testing.T) {
	m, simulated := newMutant(t)
	routes, _ := m.Cloud.Routes()
	theirs := &cloudprovider.Route{TargetNode: "node-001", DestinationCIDR: "203.0.113.16/28"}
	if err := routes.CreateRoute(t.Context(), conformance.DefaultClusterName, "theirs", theirs); err != nil {
		t.Fatal(err)
	}
	result := check(t, m, conformance.Options{Rules: []string{"routes-created"}}).Results[0]
	if result.Outcome != conformance.Broken || !strings.Contains(result.Reason, "has it already") {
		t.Errorf("%s %q %q", result.Outcome, result.Reason, result.Findings)
	}
	if left := leftIn(t, simulated); left != "1 instances, 0 load balancers, 1 routes" {
		t.Errorf("afterwards the cloud holds %s", left)
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	factory := func(context.Context) (*conformance.Subject, error) { return nil, errors.New("never called") }
	_, err := conformance.Check(t.Context(), factory, conformance.Options{
		Rules: []string{"no-such-rule"}, Skip: map[string]string{"routes-created": " ", "another": "x"}, PropagationTimeout: -time.Second,
	})
	for _, want := range []string{`no rule "no-such-rule"`, `no rule "another"`, "skipped without a reason", "must not be negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestReports(t *testing.T) {
	m, _ := newMutant(t)
	m.name = func() string { return "" }
	m.subject.Hooks.InjectFault = nil
	var text bytes.Buffer
	report := check(t, m, conformance.Options{
		Rules:    []string{"provider-named", "instances-missing", "instances-throttled", "legacy-missing"},
		Skip:     map[string]string{"legacy-missing": "not of interest"},
		Progress: func(result conformance.Result) { _ = result.WriteText(&text) },
	})
	for _, want := range []string{
		"failed   provider-named (", "rule provider-named: The provider has a name", "source: cloudprovider.Interface.ProviderName: \"",
		`seen: ProviderName returned "", which`, "passed   instances-missing (",
		"not run  instances-throttled: only a provider's own test can give the hook that this needs: InjectFault",
		"not run  legacy-missing: left out: not of interest",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text does not say %q:\n%s", want, text.String())
		}
	}
	if want := "1 rules passed, 1 failed, 2 were not run, 0 broke"; report.Summary() != want {
		t.Errorf("summary %q, want %q", report.Summary(), want)
	}
	var junit bytes.Buffer
	if err := report.WriteJUnit(&junit, "sim"); err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Class   string `xml:"classname,attr"`
			Failure string `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(junit.Bytes(), &suite); err != nil {
		t.Fatal(err)
	}
	if suite.Tests != 4 || suite.Failures != 1 || suite.Skipped != 2 || suite.Cases[0].Class != "sim.provider" ||
		!strings.Contains(suite.Cases[0].Failure, "seen: ProviderName") {
		t.Errorf("JUnit:\n%s", junit.String())
	}
}
