package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/dev/program"
)

const (
	// startTimeout bounds the start of all programs. It takes 3 s on an idle machine; tests share theirs with compilers.
	startTimeout = 2 * time.Minute
	// stopGrace is how long etcd and kube-controller-manager may take to end.
	stopGrace = 3 * time.Second
	// apiServerGrace is short because kube-apiserver has no state besides etcd, and waits up to a minute for open watches.
	apiServerGrace = 500 * time.Millisecond
)

// Cluster is a control plane that runs.
type Cluster struct {
	options   Options
	dir       string
	temporary bool // dir is removed by Stop
	authority *authority
	port      *port
	endpoint  string // host:port of kube-apiserver
	admin     *rest.Config
	applier   applier
	audit     auditTrail

	mu                sync.Mutex
	etcd              *program.Program
	apiServer         *program.Program
	controllerManager *program.Program
	stopped           bool
	forget            func() bool // ends the watch for the end of Start's context
}

// Start starts a control plane and returns when it is ready: kube-apiserver says so, RBAC's default roles and the system
// namespaces are there and, with ControllerManager, the default service account too.
//
// The control plane lives until Stop is called, ctx ends or this process dies, whichever is first.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.complete()
	if err != nil {
		return nil, fmt.Errorf("start control plane: options: %w", err)
	}
	cluster, err := prepare(options)
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	starting, cancel := withStartTimeout(ctx)
	defer cancel()
	if err := cluster.startAll(starting); err != nil {
		cluster.temporary = false // its logs are evidence
		return nil, fmt.Errorf("start control plane in %s: %w", cluster.dir, errors.Join(err, cluster.Stop(ctx)))
	}
	cluster.mu.Lock()
	defer cluster.mu.Unlock()
	cluster.forget = context.AfterFunc(ctx, func() { _ = cluster.Stop(context.WithoutCancel(ctx)) })
	return cluster, nil
}

// prepare writes everything that the programs read.
func prepare(options Options) (*Cluster, error) {
	dir, temporary, err := options.makeDir()
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"pki", "kubeconfigs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	cluster := &Cluster{options: options, dir: dir, temporary: temporary}
	if cluster.authority, err = newAuthority(); err != nil {
		return nil, err
	}
	if cluster.port, err = reservePort(options.BindAddress); err != nil {
		return nil, err
	}
	cluster.endpoint = cluster.port.addr.String()
	if err := cluster.writeFiles(); err != nil {
		return nil, errors.Join(err, cluster.port.release())
	}
	return cluster, nil
}

// writeFiles writes certificates, keys, kubeconfigs and the audit policy.
func (c *Cluster) writeFiles() error {
	var err error
	if c.admin, err = c.UserConfig("localcluster-admin", "system:masters"); err != nil {
		return err
	}
	if err := writeKubeconfig(c.AdminKubeconfig(), c.admin); err != nil {
		return err
	}
	if err := c.writeAPIServerFiles(); err != nil {
		return err
	}
	_, err = c.UserKubeconfig(controllerManagerUser)
	return err
}

func (c *Cluster) startAll(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if !c.options.ControllerManager {
		return nil
	}
	return c.startControllerManager(ctx)
}

// Dir is the directory of the control plane, with the logs etcd.log, kube-apiserver.log and kube-controller-manager.log.
func (c *Cluster) Dir() string { return c.dir }

// Stop ends the control plane: clients before servers, kube-apiserver before etcd, each first asked and then killed. It
// takes a few seconds at most; when ctx ends, what still runs is killed at once. Stopping twice is no error.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	if c.forget != nil {
		c.forget()
	}
	err := errors.Join(
		c.controllerManager.Stop(ctx, stopGrace),
		c.apiServer.Stop(ctx, apiServerGrace),
		c.etcd.Stop(ctx, stopGrace),
		c.port.release(),
	)
	if c.temporary {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	if err != nil {
		return fmt.Errorf("stop control plane in %s: %w", c.dir, err)
	}
	return nil
}

// StopAPIServer ends kube-apiserver and leaves the rest running: clients see refused connections until StartAPIServer.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.apiServer.Stop(ctx, apiServerGrace); err != nil {
		return err
	}
	if !audits(c.options.Audit) {
		return nil
	}
	return c.audit.abandon(c.auditLog())
}

// StartAPIServer starts kube-apiserver again after StopAPIServer, on the same port and with the same data, and returns
// when it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errors.New("start kube-apiserver again: the control plane is stopped")
	}
	if c.apiServer.Exited() == nil {
		return errors.New("start kube-apiserver again: it runs")
	}
	ctx, cancel := withStartTimeout(ctx)
	defer cancel()
	return c.startAPIServer(ctx)
}

// PauseEtcd stops etcd where it is: kube-apiserver gets no answers from it until ResumeEtcd.
func (c *Cluster) PauseEtcd() error { return c.signalEtcd(syscall.SIGSTOP) }

// ResumeEtcd has etcd go on after PauseEtcd.
func (c *Cluster) ResumeEtcd() error { return c.signalEtcd(syscall.SIGCONT) }

func (c *Cluster) signalEtcd(signal syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.etcd.Signal(signal)
}

func withStartTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
}
