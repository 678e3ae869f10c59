package arena

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/localcluster"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/test/bench/figures"
)

// rbacReference are the rights of the reference's ServiceAccount.
//
//go:embed rbac-reference.yaml
var rbacReference []byte

// The ServiceAccounts of the managers, in kube-system.
const (
	mooringAccount   = "cloud-controller-manager"
	referenceAccount = "reference-ccm"
	systemNamespace  = "kube-system"
)

// quiet is how long a manager must not have asked the cloud for anything until it counts as idle, and quietCPU the share of one
// processor that it may use meanwhile.
const (
	quiet    = 2 * time.Second
	quietCPU = 0.1
)

// Options say what an arena is made of.
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
	// Logs is a directory that gets the logs when the arena is closed. Empty means that they are lost.
	Logs string
	// Tell is called with how far a wait is.
	Tell func(done, of int)
}

// Arena is a fresh control plane, a fresh cloud and the processes of one manager.
type Arena struct {
	// Cloud is the simulated cloud.
	Cloud *Cloud

	options    Options
	dir        string
	cluster    *localcluster.Cluster
	client     kubernetes.Interface
	watch      *watch
	user       string
	kubeconfig string
	managers   []*Manager
	// done and of are how far the wait is that is under way.
	done, of int
}

// Open starts a control plane and a cloud. No manager runs yet.
func Open(ctx context.Context, options Options) (*Arena, error) {
	dir, err := os.MkdirTemp(memory(), "mooring-bench-")
	if err != nil {
		return nil, fmt.Errorf("open the arena: %w", err)
	}
	a := &Arena{options: options, dir: dir}
	if err := a.open(ctx); err != nil {
		return nil, fmt.Errorf("open the arena: %w", errors.Join(err, a.Close(context.WithoutCancel(ctx))))
	}
	return a, nil
}

// memory returns a directory that is in memory, so that no variant waits for a disk. Empty if there is none.
func memory() string {
	const shared = "/dev/shm"
	var stat syscall.Statfs_t
	const enough = 2 << 30
	if err := syscall.Statfs(shared, &stat); err == nil && stat.Bavail*uint64(stat.Bsize) >= enough {
		return shared
	}
	return ""
}

func (a *Arena) open(ctx context.Context) (err error) {
	// The control plane lives until Close, and not only until it is prepared.
	a.cluster, err = localcluster.Start(context.WithoutCancel(ctx), localcluster.Options{
		Binaries: a.options.Binaries, Dir: filepath.Join(a.dir, "control-plane"), Audit: auditv1.LevelMetadata,
	})
	if err != nil {
		return err
	}
	if a.Cloud, err = startCloud(a.dir, a.options.Instances); err != nil {
		return fmt.Errorf("start the simulated cloud: %w", err)
	}
	rbac, account := deploy.RBAC, mooringAccount
	if strings.HasPrefix(a.options.Variant.Name, figures.ReferenceDefault) {
		rbac, account = rbacReference, referenceAccount
	}
	if err := a.cluster.Apply(ctx, rbac); err != nil {
		return err
	}
	if a.kubeconfig, err = a.cluster.ServiceAccountKubeconfig(ctx, systemNamespace, account); err != nil {
		return err
	}
	a.user = "system:serviceaccount:" + systemNamespace + ":" + account
	config := a.cluster.AdminConfig()
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	if a.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	a.watch, err = startWatch(context.WithoutCancel(ctx), a.client)
	return err
}

// StartManager starts one more process of the manager. The first leads, and any other stands by.
func (a *Arena) StartManager(ctx context.Context) error {
	name := fmt.Sprintf("manager-%d", len(a.managers)+1)
	flags := append(append([]string{"--cloud-provider=" + a.options.Variant.Plugin}, a.options.Flags...), a.options.Variant.Flags...)
	m, err := startManager(a.dir, name, a.options.Program, a.kubeconfig, a.Cloud.config, flags)
	if err != nil {
		return err
	}
	a.managers = append(a.managers, m)
	if err := a.await(ctx, 1, func() int {
		if a.watch.leader() != "" {
			return 1
		}
		return 0
	}); err != nil {
		return fmt.Errorf("a manager leads: %w", err)
	}
	return a.AwaitQuiet(ctx)
}

// AwaitQuiet waits until the managers have nothing to do: for a while, no call of the cloud and next to no processor time.
func (a *Arena) AwaitQuiet(ctx context.Context) error {
	for {
		calls, cpu := a.Cloud.received(), a.cpu()
		if err := a.Pause(ctx, quiet); err != nil {
			return err
		}
		if a.Cloud.received() == calls && a.cpu()-cpu < quietCPU*quiet.Seconds() {
			return nil
		}
	}
}

// AwaitRefusals waits until the cloud has throttled so many calls more than before, at most for some time. It is an error if it
// has throttled none until then.
func (a *Arena) AwaitRefusals(ctx context.Context, before, want int, most time.Duration) error {
	end := time.Now().Add(most)
	err := await(ctx, func() int {
		if time.Now().After(end) {
			return want
		}
		return a.Cloud.Refused() - before
	}, want, func(int) {}, a.problem)
	if err == nil && a.Cloud.Refused() == before {
		return fmt.Errorf("the cloud has throttled nothing within %s", most)
	}
	return err
}

// AwaitListedRoutes waits until the routes are listed the next time, at most for some time.
func (a *Arena) AwaitListedRoutes(ctx context.Context, most time.Duration) error {
	before, end := a.Cloud.received(api.OpListRoutes), time.Now().Add(most)
	return await(ctx, func() int {
		if a.Cloud.received(api.OpListRoutes) == before && time.Now().Before(end) {
			return 0
		}
		return 1
	}, 1, func(int) {}, a.problem)
}

// Pause lets time pass. It ends early, with an error, when a manager has ended.
func (a *Arena) Pause(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	return await(ctx, func() int {
		if time.Now().Before(end) {
			return 0
		}
		return 1
	}, 1, func(int) {}, a.problem)
}

// await polls until count reaches want, and remembers how far it got.
func (a *Arena) await(ctx context.Context, want int, count func() int) error {
	return await(ctx, count, want, func(done int) {
		a.done, a.of = done, want
		if a.options.Tell != nil {
			a.options.Tell(done, want)
		}
	}, a.problem)
}

// problem returns an error if all managers have ended, or one that was not stopped.
func (a *Arena) problem() error {
	for _, m := range a.managers {
		if err := m.ended(); err != nil && !m.stopped {
			return err
		}
	}
	return nil
}

// cpu returns the processor time of all managers so far.
func (a *Arena) cpu() float64 {
	total := 0.0
	for _, m := range a.managers {
		// One that ends at this moment is noticed by problem.
		_ = m.read()
		total += m.cpu
	}
	return total
}

// Life stops the managers and returns what they used in their lives.
func (a *Arena) Life(ctx context.Context) (figures.Life, error) {
	life := figures.Life{Stage: a.options.Stage, Variant: a.options.Variant.Name}
	var errs []error
	for _, m := range a.managers {
		errs = append(errs, m.stop(ctx))
		life.CPUSeconds += m.cpu
		life.PeakBytes = max(life.PeakBytes, m.peak)
	}
	return life, errors.Join(errs...)
}

// Close ends everything and removes all files but the logs, if they are wanted.
func (a *Arena) Close(ctx context.Context) error {
	var errs []error
	for _, m := range a.managers {
		errs = append(errs, m.stop(ctx))
	}
	if a.watch != nil {
		a.watch.close()
	}
	if a.cluster != nil {
		errs = append(errs, a.cluster.Stop(ctx))
	}
	if a.Cloud != nil {
		errs = append(errs, a.Cloud.close())
	}
	if a.options.Logs != "" {
		errs = append(errs, a.keepLogs())
	}
	return errors.Join(append(errs, os.RemoveAll(a.dir))...)
}

// keepLogs copies the logs of the managers.
func (a *Arena) keepLogs() error {
	if err := os.MkdirAll(a.options.Logs, 0o755); err != nil {
		return err
	}
	logs, err := fs.Glob(os.DirFS(a.dir), "*.log")
	for _, log := range logs {
		content, readErr := os.ReadFile(filepath.Join(a.dir, log))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(a.options.Logs, log), content, 0o600))
	}
	return err
}
