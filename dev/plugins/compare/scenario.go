package compare

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
)

const (
	// stepDeadline bounds a step: until its condition holds, and again until both managers have come to the same.
	stepDeadline = 3 * poll.Deadline
	// calm is for how long nothing may have changed when a step ends, so what comes late is seen.
	calm = 2 * time.Second
	// Refresh is how often both managers compare nodes that are initialized with the cloud, unless a scenario's flags say otherwise:
	// more often than a step is calm for, so what comes and goes with every refresh is seen.
	Refresh = time.Second
	// pollInterval is how often both environments are looked at.
	pollInterval = 100 * time.Millisecond
)

// Scenario is what happens to a cluster and its cloud. C is the type of the cloud's stand-in. Provider, Open, Reference, Mooring
// and Steps are required.
type Scenario[C Cloud] struct {
	// Provider is the name under which the plugin registers itself.
	Provider string
	// Open starts a stand-in of the cloud, which ends with the test.
	Open func(t testing.TB) (C, Launch)
	// Reference and Mooring are the programs, linked with the plugin.
	Reference, Mooring string
	// Flags are for both programs, MooringFlags for one.
	Flags, MooringFlags []string
	// Rights are a manifest with the plugin's own rights in the cluster. It binds them to the ServiceAccounts cloud-controller-manager and
	// reference-ccm in kube-system. The managers have their own rights: Mooring the rights that it ships, and the reference the rights that
	// Kubernetes documents.
	Rights []byte
	// Normalize replaces what is random in a text, besides UIDs of Nodes and Services. Nil replaces nothing.
	Normalize func(string) string
	// Parallel says that the plugin changes the cloud from several goroutines, so the order of the changes within a step
	// says nothing.
	Parallel bool
	// Steps are run in their order, each in both environments at once. The first one that fails ends the scenario.
	Steps []Step[C]
	// Intended are the differences that there shall be. One that does not show is an error.
	Intended []Intended
	// MoreCalls are actions of which Mooring may make more calls than the reference, with the reason.
	MoreCalls map[string]string
	// Refreshed are reads that come with each refresh of nodes: one manager may have had time for one refresh more when a step ends. The
	// numbers are how many more of them Mooring may make in all steps.
	Refreshed map[string]int
}

// Step is something that happens, and what has to come of it.
type Step[C Cloud] struct {
	Name string
	// Act makes it happen. Nil waits only.
	Act func(context.Context, *Environment[C]) error
	// Until returns an error for as long as what has to come of it is not there. Nil waits for calm only.
	Until func(context.Context, *Environment[C]) error
}

// Run runs a scenario and fails the test where Mooring differs from the reference and is not meant to. It prints how many calls
// of the cloud each step took.
func Run[C Cloud](t *testing.T, scenario Scenario[C]) {
	t.Helper()
	expected, err := newExpectations(scenario.Intended)
	if err != nil {
		t.Fatal(err)
	}
	binaries := localclustertest.Build(t, localcluster.ControlPlane)
	reference := newEnvironment(t, scenario, "reference", scenario.Reference)
	mooring := newEnvironment(t, scenario, "mooring", scenario.Mooring)
	mooring.flags = append(mooring.flags, "--node-full-refresh-period="+Refresh.String()) // as often as the reference does
	mooring.flags = append(mooring.flags, scenario.MooringFlags...)
	p := &comparison[C]{scenario: scenario, reference: reference, mooring: mooring, expected: expected}
	t.Cleanup(func() { p.close(t) })
	if err := p.both(t.Context(), func(ctx context.Context, e *Environment[C]) error { return e.open(ctx, binaries) }); err != nil {
		t.Fatal(err)
	}
	for _, step := range scenario.Steps {
		if !t.Run(step.Name, func(t *testing.T) { p.runStep(t, step) }) {
			return
		}
	}
	for _, unseen := range p.expected.unseen() {
		t.Errorf("this difference is said to be intended and does not show: %s", unseen)
	}
	t.Logf("calls of the cloud, reference and Mooring:\n%s", p.callCounts.table())
	for _, moreCalls := range p.callCounts.moreCalls(scenario.MoreCalls, scenario.Refreshed) {
		t.Error(moreCalls)
	}
}

// comparison is a scenario that is being run.
type comparison[C Cloud] struct {
	scenario           Scenario[C]
	reference, mooring *Environment[C]
	expected           *expectations
	callCounts         callCounts
}

// both does something in both environments at once.
func (p *comparison[C]) both(ctx context.Context, do func(context.Context, *Environment[C]) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, e := range []*Environment[C]{p.reference, p.mooring} {
		group.Go(func() error {
			if err := do(ctx, e); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (p *comparison[C]) runStep(t *testing.T, step Step[C]) {
	ctx, cancel := context.WithTimeout(t.Context(), stepDeadline)
	defer cancel()
	err := p.both(ctx, func(ctx context.Context, e *Environment[C]) error {
		if step.Act != nil {
			if err := step.Act(ctx, e); err != nil {
				return err
			}
		}
		return e.await(ctx, step.Until)
	})
	if err != nil {
		t.Fatal(err)
	}
	p.agree(t, step.Name)
}

// agree waits until neither environment has changed for a while and both are the same but for the intended differences. That they
// are looked at until they agree, and not once, is because one manager may take longer over the same.
func (p *comparison[C]) agree(t *testing.T, step string) {
	ctx, cancel := context.WithTimeout(t.Context(), stepDeadline)
	defer cancel()
	var before pair
	var differences []difference
	since := time.Now()
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		now, err := p.observe(ctx)
		if err != nil {
			t.Fatalf("%v; reference (-) and Mooring (+) differed before:\n%s", err, show(differences))
		}
		differences = p.expected.compare(step, now)
		if len(differences) > 0 || !now.equal(before) {
			since = time.Now()
		}
		if time.Since(since) >= calm {
			p.expected.note(step, now)
			p.endStep(step, now)
			return true, nil
		}
		before = now
		return false, nil
	})
	if err != nil {
		t.Fatalf("after %s, reference (-) and Mooring (+) differ, or do not come to rest:\n%s", stepDeadline, show(differences))
	}
}

func (p *comparison[C]) observe(ctx context.Context) (pair, error) {
	var both pair
	err := p.both(ctx, func(ctx context.Context, e *Environment[C]) (err error) {
		into := &both.reference
		if e == p.mooring {
			into = &both.mooring
		}
		*into, err = e.observe(ctx)
		return err
	})
	return both, err
}

// endStep ends a step: what the clouds are asked from now on belongs to the next.
func (p *comparison[C]) endStep(step string, now pair) {
	p.callCounts.add(step, now.reference.calls, now.mooring.calls)
	p.reference.seen += len(now.reference.calls)
	p.mooring.seen += len(now.mooring.calls)
}

// close ends both environments and shows the end of the logs if the test failed.
func (p *comparison[C]) close(t *testing.T) {
	for _, e := range []*Environment[C]{p.reference, p.mooring} {
		e.close(t)
	}
}
