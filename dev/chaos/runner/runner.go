// Package runner carries a schedule out on a real control plane, with a simulated cloud and two replicas of the manager as processes, and
// has a checker watch.
//
//	runner ── schedule ──> fixture (users, kubelets, machines), faults, signals to processes
//	manager a ──> front a ──┐                       ┌── apiProxy a <── manager a
//	manager b ──> front b ──┴──> simulated cloud    └── apiProxy b <── manager b ──> API server
//	                 └── record ──> checker <── watch ──┘
//
// Each replica reaches the cloud and the API server through proxies of its own, where its writes are attributed to it, faults act and
// crash points are. See ADR 86.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-ccm/mooring/dev/chaos/checker"
	"github.com/mooring-ccm/mooring/dev/chaos/clock"
	"github.com/mooring-ccm/mooring/dev/chaos/model"
	"github.com/mooring-ccm/mooring/dev/chaos/report"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// Options say how a schedule is run. All but Ahead, Flags, Env, Watch, Singly, SampleEvery, UntilViolation and Progress are required.
type Options struct {
	// ControlPlane are the programs of a control plane, Binary is the manager, and Dir is where everything is kept.
	ControlPlane localcluster.Binaries
	Binary, Dir  string
	// Ahead is how far the wall clock of the first replica is ahead, in whole seconds, and AheadBinary the manager that package clock
	// built for that. With zero all have one clock.
	Ahead       time.Duration
	AheadBinary string
	// Lease is how long the lease of the managers is good, in whole seconds.
	Lease time.Duration
	// Bound is how long an object that no fault concerns may wait, and Patience how long everything may take in the end.
	Bound, Patience time.Duration
	// Flags are further ones of the managers, and Env environment variables as "NAME=value".
	Flags, Env []string
	// Watch says that the managers watch instances and change targets by differences.
	Watch bool
	// Singly says that the plugin declares no lists, so managers ask for one instance and one load balancer after the other.
	Singly bool
	// SampleEvery is how often the metrics of the leader are read; zero is never.
	SampleEvery time.Duration
	// UntilViolation ends the run as soon as a rule does not hold.
	UntilViolation bool
	// Progress gets a line for each operation; nil discards them.
	Progress io.Writer
}

// flags are the flags of a manager that say how it works.
func (o Options) flags() []string {
	seconds := func(d time.Duration) string { return d.Round(time.Second).String() }
	return append([]string{
		"--leader-elect-lease-duration=" + seconds(o.Lease), "--leader-elect-renew-deadline=" + seconds(o.Lease*2/3),
		"--leader-elect-retry-period=" + seconds(max(time.Second, o.Lease/8)),
		"--load-balancer-target-delay=1s", "--load-balancer-drift-check-period=10s",
		// A lie about some instances lasts up to 3 s in a schedule; denials have to span more than twice that.
		"--node-status-update-frequency=10s", "--node-full-refresh-period=40s", "--node-monitor-period=1s",
		"--node-deletion-min-age=0s", "--node-deletion-min-denial-time=8s", "--node-deletion-limit=100%",
		"--configure-cloud-routes", "--cluster-cidr=10.64.0.0/10", "--route-reconciliation-period=1s",
		"--graceful-shutdown-timeout=10s", "--v=2",
	}, o.Flags...)
}

const (
	// resumeGrace is how long after SIGCONT what a replica had begun before may still arrive.
	resumeGrace = 2 * time.Second
	// look is how often the state is held against the rules.
	look = 250 * time.Millisecond
	// stopTimeout bounds the end of everything.
	stopTimeout = time.Minute
)

// run is one run of a schedule.
type run struct {
	options  Options
	began    time.Time
	env      *environment
	checker  *checker.Checker
	fixture  *fixture
	replicas []*replica
	// exclusive is held by what stops the API server or etcd: one after the other.
	exclusive sync.Mutex

	// stop ends the schedule.
	stop context.CancelFunc

	mu      sync.Mutex
	errs    []error
	samples []report.Sample
}

// Run carries a schedule out and returns what came of it. An error says that the run could not be made; what the manager did wrong is in
// the report.
func Run(ctx context.Context, s schedule.Schedule, o Options) (found report.Report, err error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	r := &run{options: o, began: time.Now(), checker: checker.New(checker.Options{Bound: o.Bound, ResumeGrace: resumeGrace})}
	r.env, err = prepare(ctx, o, r.checker, r.now)
	if r.env != nil {
		defer func() {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err = errors.Join(err, r.env.close(stopping))
		}()
	}
	if err != nil {
		return found, err
	}
	r.fixture = newFixture(r.env)
	watching, stopWatching := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	w := &watcher{client: r.env.admin, checker: r.checker, faults: r.env.faults, now: r.now}
	watchers.Go(func() { w.nodes(watching) })
	watchers.Go(func() { w.services(watching) })
	watchers.Go(func() { r.lookOn(watching) })
	defer watchers.Wait()
	defer stopWatching()
	if err := r.startReplicas(ctx); err != nil {
		return found, err
	}
	playing, stopPlaying := context.WithCancel(ctx)
	r.mu.Lock()
	r.stop = stopPlaying
	r.mu.Unlock()
	if o.SampleEvery > 0 {
		watchers.Go(func() { r.sampleOn(watching) })
	}
	remaining := r.play(playing, s)
	stopPlaying()
	stopWatching()
	watchers.Wait()
	err = errors.Join(append(r.errs, r.stopReplicas(ctx))...)
	r.checker.Unmet(r.now(), remaining)
	violations, checked := r.checker.Result()
	found = report.New(s, violations, checked, r.checker.Recoveries(), r.now(), r.env.faults.hit.Load())
	found.Samples = r.samples
	if o.Ahead != 0 {
		found.Clocks = []report.Clock{r.replicas[0].clock.read(), r.replicas[1].clock.read()}
		if len(violations) == 0 {
			err = errors.Join(err, checkClocks(o.Ahead, found.Clocks[0], found.Clocks[1]))
		}
	}
	return found, err
}

// now is the time since the run began.
func (r *run) now() time.Duration { return time.Since(r.began) }

// lookOn holds the state against the rules, again and again.
func (r *run) lookOn(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.checker.Look(r.now())
			if r.options.UntilViolation && r.checker.Violated() {
				r.end()
			}
		}
	}
}

// end ends the schedule, if it has begun.
func (r *run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop()
	}
}

func (r *run) startReplicas(ctx context.Context) error {
	if err := makeForeign(ctx, r.env); err != nil {
		return err
	}
	for i, name := range []string{"a", "b"} {
		o := r.options
		if i == 0 && o.Ahead != 0 {
			o.Binary, o.Env = o.AheadBinary, append(slices.Clone(o.Env), clock.Env(o.Ahead))
		}
		one, err := newReplica(name, o, r.env, o.Watch)
		if err != nil {
			return fmt.Errorf("replica %s: %w", name, err)
		}
		r.replicas = append(r.replicas, one)
		if err := one.start(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) stopReplicas(ctx context.Context) error {
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var errs []error
	for _, one := range r.replicas {
		errs = append(errs, one.close(stopping))
	}
	return errors.Join(errs...)
}

// play carries the operations out, each at its time, and waits until all is as it should be. It returns what is not after that.
func (r *run) play(ctx context.Context, s schedule.Schedule) []model.Difference {
	var underWay sync.WaitGroup
	began := r.now()
	for _, o := range s {
		if o.Verb == schedule.Converge {
			before := r.now()
			underWay.Wait()
			if remaining := r.converge(ctx); len(remaining) > 0 {
				return remaining
			}
			began += r.now() - before
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(began + o.At - r.now()):
		}
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(r.options.Progress, "%8s  %s\n", r.now().Round(100*time.Millisecond), abridged(o))
		underWay.Go(func() { r.carryOut(ctx, o) })
	}
	underWay.Wait()
	return r.converge(ctx)
}

// abridged is an operation as a line that fits a terminal.
func abridged(o schedule.Operation) string {
	const most = 140
	line := o.String()
	if len(line) > most {
		return line[:most] + "..."
	}
	return line
}

// calmLooks is how often in a row nothing may be wrong until it counts: more than one, because managers may be at something.
const calmLooks = 4

// shown is how often it is shown what is waited for.
const shown = 15 * time.Second

// converge waits until all is as it should be. It returns what is not when patience has run out.
func (r *run) converge(ctx context.Context) (wrong []model.Difference) {
	deadline := r.now() + r.options.Patience
	fmt.Fprintf(r.options.Progress, "%8s  converging\n", r.now().Round(100*time.Millisecond))
	next := r.now() + shown
	calm, late := 0, false
	err := wait.PollUntilContextCancel(ctx, look, true, func(context.Context) (bool, error) {
		wrong = r.checker.Look(r.now())
		calm++
		if len(wrong) > 0 {
			calm = 0
		}
		if late = r.now() > deadline; late {
			return true, nil
		}
		if r.now() > next && len(wrong) > 0 {
			fmt.Fprintf(r.options.Progress, "%8s  waiting for %d, first: %s\n", r.now().Round(100*time.Millisecond), len(wrong), wrong[0])
			next += shown
		}
		return calm >= calmLooks, nil
	})
	if err != nil || late {
		return wrong
	}
	r.checker.Converged(r.now())
	fmt.Fprintf(r.options.Progress, "%8s  converged\n", r.now().Round(100*time.Millisecond))
	return nil
}

// fail keeps an error of the run itself.
func (r *run) fail(ctx context.Context, o schedule.Operation, err error) {
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(r.options.Progress, "%8s  failed: %s: %v\n", r.now().Round(100*time.Millisecond), o.Verb, err)
		r.keep(fmt.Errorf("%s: %w", abridged(o), err))
	}
}

func (r *run) keep(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}
