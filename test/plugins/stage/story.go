package stage

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mooring-ccm/mooring/localcluster"
	"github.com/mooring-ccm/mooring/localcluster/localclustertest"
)

const (
	// stepDeadline bounds a step: until its condition holds, and again until both managers have come to the same.
	stepDeadline = time.Minute
	// calm is for how long nothing may have changed when a step ends, so that what comes late is seen.
	calm = 2 * time.Second
	// Refresh is how often both managers compare nodes that are initialized with the cloud, unless a story's flags say otherwise:
	// more often than a step is calm for, so that what comes and goes with every refresh is seen.
	Refresh = time.Second
	// pollInterval is how often both worlds are looked at.
	pollInterval = 100 * time.Millisecond
)

// Story is what happens to a cluster and its cloud. C is the type of the cloud's stand-in. Provider, Open, Reference, Mooring
// and Steps are required.
type Story[C Cloud] struct {
	// Provider is the name under which the plugin registers itself.
	Provider string
	// Open starts a stand-in of the cloud, which ends with the test.
	Open func(t testing.TB) (C, Launch)
	// Reference and Mooring are the programs, linked with the plugin.
	Reference, Mooring string
	// Flags are for both programs, MooringFlags for one.
	Flags, MooringFlags []string
	// Rights are a manifest with what the plugin itself may do in the cluster, bound to the ServiceAccount
	// cloud-controller-manager in kube-system. The managers have their own rights: Mooring those that it ships, the
	// reference those that Kubernetes documents.
	Rights []byte
	// Normalize replaces what is random in a text, besides UIDs of Nodes and Services. Nil replaces nothing.
	Normalize func(string) string
	// Parallel says that the plugin changes the cloud from several goroutines, so that the order of the changes within a step
	// says nothing.
	Parallel bool
	// Steps are played in their order, each in both worlds at once. The first one that fails ends the story.
	Steps []Step[C]
	// Intended are the differences that there shall be. One that does not show is an error.
	Intended []Intended
	// Dearer are actions of which Mooring may make more calls than the reference, with the reason.
	Dearer map[string]string
}

// Step is something that happens, and what has to come of it.
type Step[C Cloud] struct {
	Name string
	// Act makes it happen. Nil waits only.
	Act func(context.Context, *World[C]) error
	// Until returns an error for as long as what has to come of it is not there. Nil waits for calm only.
	Until func(context.Context, *World[C]) error
}

// Play plays a story and fails the test where Mooring differs from the reference and is not meant to. It prints how many calls
// of the cloud each step took.
func Play[C Cloud](t *testing.T, story Story[C]) {
	t.Helper()
	judge, err := newJudge(story.Intended)
	if err != nil {
		t.Fatal(err)
	}
	binaries := localclustertest.Build(t, localcluster.ControlPlane)
	reference := newWorld(t, story, "reference", story.Reference)
	mooring := newWorld(t, story, "mooring", story.Mooring)
	mooring.flags = append(mooring.flags, story.MooringFlags...)
	p := &performance[C]{story: story, reference: reference, mooring: mooring, judge: judge}
	t.Cleanup(func() { p.close(t) })
	if err := p.both(t.Context(), func(ctx context.Context, w *World[C]) error { return w.open(ctx, binaries) }); err != nil {
		t.Fatal(err)
	}
	for _, step := range story.Steps {
		if !t.Run(step.Name, func(t *testing.T) { p.play(t, step) }) {
			return
		}
	}
	for _, unseen := range p.judge.unseen() {
		t.Errorf("this difference is said to be intended and does not show: %s", unseen)
	}
	t.Logf("calls of the cloud, reference and Mooring:\n%s", p.bill.table())
	for _, dearer := range p.bill.dearer(story.Dearer) {
		t.Error(dearer)
	}
}

// performance is a story that is being played.
type performance[C Cloud] struct {
	story              Story[C]
	reference, mooring *World[C]
	judge              *judge
	bill               bill
}

// both does something in both worlds at once.
func (p *performance[C]) both(ctx context.Context, do func(context.Context, *World[C]) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, w := range []*World[C]{p.reference, p.mooring} {
		group.Go(func() error {
			if err := do(ctx, w); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (p *performance[C]) play(t *testing.T, step Step[C]) {
	ctx, cancel := context.WithTimeout(t.Context(), stepDeadline)
	defer cancel()
	err := p.both(ctx, func(ctx context.Context, w *World[C]) error {
		if step.Act != nil {
			if err := step.Act(ctx, w); err != nil {
				return err
			}
		}
		return w.await(ctx, step.Until)
	})
	if err != nil {
		t.Fatal(err)
	}
	p.agree(t, step.Name)
}

// agree waits until neither world has changed for a while and both are the same but for the intended differences. That they
// are looked at until they agree, and not once, is because one manager may take longer over the same.
func (p *performance[C]) agree(t *testing.T, step string) {
	ctx, cancel := context.WithTimeout(t.Context(), stepDeadline)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var before pair
	var differences []difference
	since := time.Now()
	for {
		now, err := p.observe(ctx)
		if err != nil {
			t.Fatalf("%v; reference (-) and Mooring (+) differed before:\n%s", err, show(differences))
		}
		differences = p.judge.compare(step, now)
		if len(differences) > 0 || !now.equal(before) {
			since = time.Now()
		}
		if time.Since(since) >= calm {
			p.judge.settle(step, now)
			p.settle(step, now)
			return
		}
		before = now
		select {
		case <-ctx.Done():
			t.Fatalf("after %s, reference (-) and Mooring (+) differ, or do not come to rest:\n%s", stepDeadline, show(differences))
		case <-tick.C:
		}
	}
}

func (p *performance[C]) observe(ctx context.Context) (pair, error) {
	var both pair
	err := p.both(ctx, func(ctx context.Context, w *World[C]) (err error) {
		into := &both.reference
		if w == p.mooring {
			into = &both.mooring
		}
		*into, err = w.observe(ctx)
		return err
	})
	return both, err
}

// settle ends a step: what the clouds are asked from now on belongs to the next.
func (p *performance[C]) settle(step string, now pair) {
	p.bill.add(step, now.reference.calls, now.mooring.calls)
	p.reference.seen += len(now.reference.calls)
	p.mooring.seen += len(now.mooring.calls)
}

// close ends both worlds and shows the end of the logs if the test failed.
func (p *performance[C]) close(t *testing.T) {
	for _, w := range []*World[C]{p.reference, p.mooring} {
		w.close(t)
	}
}
