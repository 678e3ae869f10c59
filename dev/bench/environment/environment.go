package environment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/dev/relay"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// quiet is how long a manager must not have asked the cloud for anything until it counts as idle, and quietCPU the share of one
// processor that it may use meanwhile.
const (
	quiet    = 2 * time.Second
	quietCPU = 0.1
)

// Options say what an environment is made of.
type Options struct {
	// Stage and Variant are who competes in what.
	Stage   string
	Variant figures.Variant
	// Program is the manager to run, and Flags what it gets besides those of its variant.
	Program string
	Flags   []string
	// Binaries are the control plane's.
	Binaries localcluster.Binaries
	// Instances is how many machines the cloud has.
	Instances int
	// Logs is a directory that gets the logs when the environment is closed. Empty means that they are lost.
	Logs string
	// Inspect has the managers reach the API server by a relay that counts what they receive and send, and their heap be read when a
	// measurement ends.
	Inspect bool
	// Progress is called with how far a wait is.
	Progress func(done, of int)
}

// Environment is a fresh control plane, a fresh cloud and the processes of one manager.
type Environment struct {
	// Cloud is the simulated cloud.
	Cloud *Cloud

	options  Options
	dir      string
	cluster  *harness.Cluster
	relay    *relay.Relay // nil unless Options.Inspect is set
	watch    *watch
	identity harness.Identity // of the managers
	managers []*Manager
	// done and of are how far the wait is that is under way.
	done, of int
}

// Open starts a control plane and a cloud. No manager runs yet.
func Open(ctx context.Context, options Options) (*Environment, error) {
	dir, err := os.MkdirTemp(inMemory(), "mooring-bench-")
	if err != nil {
		return nil, fmt.Errorf("open the environment: %w", err)
	}
	e := &Environment{options: options, dir: dir}
	if err := e.open(ctx); err != nil {
		return nil, fmt.Errorf("open the environment: %w", errors.Join(err, e.Close(context.WithoutCancel(ctx))))
	}
	return e, nil
}

// inMemory returns a directory that is in memory, so no variant waits for a disk. Empty if there is no such directory.
func inMemory() string {
	const shared = "/dev/shm"
	var stat syscall.Statfs_t
	const enough = 2 << 30
	if err := syscall.Statfs(shared, &stat); err == nil && stat.Bavail*uint64(stat.Bsize) >= enough {
		return shared
	}
	return ""
}

func (e *Environment) open(ctx context.Context) (err error) {
	e.identity = harness.Mooring
	if strings.HasPrefix(e.options.Variant.Name, figures.ReferenceDefault) {
		e.identity = harness.Reference
	}
	e.cluster, err = harness.Open(ctx, localcluster.Options{
		Binaries: e.options.Binaries, Dir: filepath.Join(e.dir, "control-plane"), Audit: auditv1.LevelMetadata,
		APIServerArgs: []string{"--service-node-port-range=" + nodePorts},
	}, e.identity)
	if err != nil {
		return err
	}
	if e.options.Inspect {
		if e.relay, err = relay.Start(strings.TrimPrefix(e.cluster.AdminConfig().Host, "https://")); err != nil {
			return err
		}
	}
	if e.Cloud, err = startCloud(e.dir, e.options.Instances); err != nil {
		return fmt.Errorf("start the simulated cloud: %w", err)
	}
	e.watch, err = startWatch(context.WithoutCancel(ctx), e.cluster.Client)
	return err
}

// StartManager starts one more process of the manager. The first leads, and any other stands by.
func (e *Environment) StartManager(ctx context.Context, further ...string) error {
	flags := slices.Concat([]string{"--cloud-provider=" + e.options.Variant.Plugin}, e.options.Flags, e.options.Variant.Flags, further)
	port, err := program.FreePort()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("manager-%d", len(e.managers)+1)
	in, err := e.cluster.CreatePod(ctx, e.dir, name)
	if err != nil {
		return err
	}
	manager := harness.Manager{
		Name: name, Dir: e.dir, Path: e.options.Program, Identity: e.identity, CloudConfig: e.Cloud.config, Flags: flags, Env: in.Env(), Port: port,
	}
	if e.relay != nil {
		manager.Server = e.relay.Address()
	}
	started, err := manager.Start(ctx, e.cluster)
	if err != nil {
		return err
	}
	e.managers = append(e.managers, &Manager{program: started, pod: in, endpoint: harness.Endpoint{Address: manager.Endpoint().Address, As: e.cluster.AdminConfig()}})
	if err := e.awaitLed(ctx, true); err != nil {
		return fmt.Errorf("a manager leads: %w", err)
	}
	return e.AwaitQuiet(ctx)
}

// Restart ends all managers and starts one with further flags.
func (e *Environment) Restart(ctx context.Context, further ...string) error {
	for _, m := range e.managers {
		if err := m.stop(ctx); err != nil {
			return fmt.Errorf("stop %s: %w", m.program.Name(), err)
		}
	}
	if err := e.awaitLed(ctx, false); err != nil {
		return fmt.Errorf("no replica holds the lease: %w", err)
	}
	return e.StartManager(ctx, further...)
}

// awaitLed waits until a replica holds the lease, or until none does if led is false.
func (e *Environment) awaitLed(ctx context.Context, led bool) error {
	return await(ctx, func() int {
		if (e.watch.leader() != "") == led {
			return 1
		}
		return 0
	}, 1, func(int) {}, e.problem)
}

// AwaitQuiet waits until the managers have nothing to do: for a while, no call of the cloud and next to no processor time.
func (e *Environment) AwaitQuiet(ctx context.Context) error {
	for {
		calls, cpu := e.Cloud.received(), e.cpu()
		if err := e.Pause(ctx, quiet); err != nil {
			return err
		}
		if e.Cloud.received() == calls && e.cpu()-cpu < quietCPU*quiet.Seconds() {
			return nil
		}
	}
}

// AwaitEvents waits until the managers are quiet, and have written nothing for a while but their lease: events of what happened before may
// trail behind it.
func (e *Environment) AwaitEvents(ctx context.Context) error {
	for {
		began := time.Now()
		if err := e.AwaitQuiet(ctx); err != nil {
			return err
		}
		events, err := e.cluster.AuditEvents(ctx)
		if err != nil {
			return fmt.Errorf("what the managers have written to the API server: %w", err)
		}
		if len(requestsOf(events, e.identity.User(), began, time.Now()).writes) == 0 {
			return nil
		}
	}
}

// AwaitRefusals waits until the cloud has throttled so many calls more than before, at most for some time. It is an error if it
// has throttled none until then.
func (e *Environment) AwaitRefusals(ctx context.Context, before, want int, most time.Duration) error {
	end := time.Now().Add(most)
	err := await(ctx, func() int {
		if time.Now().After(end) {
			return want
		}
		return e.Cloud.Refused() - before
	}, want, func(int) {}, e.problem)
	if err == nil && e.Cloud.Refused() == before {
		return fmt.Errorf("the cloud has throttled nothing within %s", most)
	}
	return err
}

// AwaitListedRoutes waits until the routes are listed the next time, at most for some time.
func (e *Environment) AwaitListedRoutes(ctx context.Context, most time.Duration) error {
	before, end := e.Cloud.received(api.OpListRoutes), time.Now().Add(most)
	return await(ctx, func() int {
		if e.Cloud.received(api.OpListRoutes) == before && time.Now().Before(end) {
			return 0
		}
		return 1
	}, 1, func(int) {}, e.problem)
}

// Pause lets time pass. It ends early, with an error, when a manager has ended.
func (e *Environment) Pause(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	return await(ctx, func() int {
		if time.Now().Before(end) {
			return 0
		}
		return 1
	}, 1, func(int) {}, e.problem)
}

// await polls until count reaches want, and remembers how far it got.
func (e *Environment) await(ctx context.Context, want int, count func() int) error {
	return await(ctx, count, want, func(done int) {
		e.done, e.of = done, want
		if e.options.Progress != nil {
			e.options.Progress(done, want)
		}
	}, e.problem)
}

// problem returns an error if all managers have ended, or one that was not stopped.
func (e *Environment) problem() error {
	for _, m := range e.managers {
		if err := m.program.Exited(); err != nil && !m.stopped {
			return err
		}
	}
	return nil
}

// cpu returns the processor time of all managers so far.
func (e *Environment) cpu() float64 {
	total := 0.0
	for _, m := range e.managers {
		// One that ends at this moment is noticed by problem.
		_ = m.read()
		total += m.cpu
	}
	return total
}

// StopManagers stops the managers. It is an error if one does not end as it was asked to.
func (e *Environment) StopManagers(ctx context.Context) error {
	var errs []error
	for _, m := range e.managers {
		errs = append(errs, m.stop(ctx))
	}
	return errors.Join(errs...)
}

// Close ends everything and removes all files but the logs, if they are wanted.
func (e *Environment) Close(ctx context.Context) error {
	errs := []error{e.StopManagers(ctx)}
	if e.watch != nil {
		e.watch.close()
	}
	if e.relay != nil {
		errs = append(errs, e.relay.Close())
	}
	if e.cluster != nil {
		errs = append(errs, e.cluster.Stop(ctx))
	}
	if e.Cloud != nil {
		errs = append(errs, e.Cloud.close())
	}
	if e.options.Logs != "" {
		errs = append(errs, e.keepLogs())
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

// keepLogs copies the logs of the managers.
func (e *Environment) keepLogs() error {
	if err := os.MkdirAll(e.options.Logs, 0o755); err != nil {
		return err
	}
	logs, err := fs.Glob(os.DirFS(e.dir), "*.log")
	for _, log := range logs {
		content, readErr := os.ReadFile(filepath.Join(e.dir, log))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(e.options.Logs, log), content, 0o600))
	}
	return err
}
