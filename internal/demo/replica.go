package demo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/internal/demo/story"
)

const (
	// statusFrequency is --node-status-update-frequency of the replicas. The default of 5 min is for clusters, not for
	// watching.
	statusFrequency = 2 * time.Second
	// replicaGrace is how long a replica may take to stop before it is killed.
	replicaGrace = 10 * time.Second
	// readyPoll is how often a replica is asked whether it is ready.
	readyPoll = 25 * time.Millisecond
)

// replica is one process of the manager.
type replica struct {
	name    string
	log     string
	certs   string
	port    int
	command *exec.Cmd
	// free is closed when the process may end: it was told to, or nobody counts on it any more.
	free     chan struct{}
	freeOnce sync.Once
	// done is closed when it has ended, and err says how.
	done chan struct{}
	err  error
}

// startReplica starts the daemon as it is shipped, with the rights of its ServiceAccount and no others.
func (s *stage) startReplica(name string) (*replica, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("replica %s: %w", name, err)
	}
	r := &replica{
		name: name, log: s.path("logs", name+".log"), certs: s.path(name, "certs"), port: port,
		free: make(chan struct{}), done: make(chan struct{}),
	}
	r.command = exec.Command(s.daemon,
		"--cloud-provider=sim", "--cloud-config="+s.cloudConfig,
		"--kubeconfig="+s.kubeconfig, "--authentication-kubeconfig="+s.kubeconfig, "--authorization-kubeconfig="+s.kubeconfig,
		"--node-status-update-frequency="+statusFrequency.String(),
		"--node-monitor-period="+monitorPeriod.String(), "--node-deletion-min-age="+monitorPeriod.String(),
		"--cluster-cidr="+podCIDRs, "--route-reconciliation-period="+routePeriod.String(), "--route-reconciliation-max-period="+routePeriod.String(),
		"--load-balancer-audit-period="+auditPeriod.String(),
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port), "--cert-dir="+r.certs,
		"--logging-format=json",
	)
	if err := r.start(); err != nil {
		return nil, fmt.Errorf("replica %s: %w", name, err)
	}
	s.replicas[name] = r
	s.onEnd(r.stop)
	s.beside("replica "+name, r.mustLive)
	s.tellRole(r, story.Starting)
	return r, nil
}

func (s *stage) tellRole(r *replica, role story.Role) {
	s.tell(story.ReplicaSeen{At: time.Now(), Name: r.name, PID: r.command.Process.Pid, Role: role})
}

// start starts the process in a group of its own, so that Ctrl-C reaches only the demo, which then stops everything in order.
func (r *replica) start() error {
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	r.command.Stdout, r.command.Stderr = log, log
	r.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(r.command.SysProcAttr)
	started := make(chan error)
	go r.run(started)
	return <-started
}

// run waits for the process on the thread that started it: that thread's end would be the parent's for the kernel.
func (r *replica) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := r.command.Start()
	started <- err
	if err != nil {
		return
	}
	r.err = r.command.Wait()
	close(r.done)
}

// release says that the process may end.
func (r *replica) release() { r.freeOnce.Do(func() { close(r.free) }) }

// mustLive returns an error when the process ends before it may.
func (r *replica) mustLive(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.free:
		return nil
	case <-r.done:
	}
	select {
	case <-r.free:
		return nil
	default:
		return fmt.Errorf("ended by itself (%s): %s", r.command.ProcessState, lastLine(r.log))
	}
}

// terminate asks the process to stop, as Kubernetes does with a pod.
func (r *replica) terminate() error {
	r.release()
	return r.signal(syscall.SIGTERM)
}

func (r *replica) signal(signal syscall.Signal) error {
	select {
	case <-r.done:
		return nil
	default:
		return r.command.Process.Signal(signal)
	}
}

// ended waits until the process has stopped and returns an error unless it did so in order.
func (r *replica) ended(ctx context.Context) error {
	select {
	case <-r.done:
		if r.err != nil {
			return fmt.Errorf("%s stopped with %w: %s", r.name, r.err, lastLine(r.log))
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not stopped: %w", r.name, context.Cause(ctx))
	}
}

// stop ends the process, with force if it has to.
func (r *replica) stop(ctx context.Context) error {
	err := r.terminate()
	ctx, cancel := context.WithTimeout(ctx, replicaGrace)
	defer cancel()
	select {
	case <-r.done:
		return err
	case <-ctx.Done():
	}
	err = errors.Join(err, r.signal(syscall.SIGKILL))
	<-r.done
	return err
}

// ready waits until /readyz of the replica says ok: its caches are warm, whether it leads or not.
func (r *replica) ready(ctx context.Context) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := r.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w", r.name, context.Cause(ctx), err)
		}
	}
}

// probe asks /readyz, and trusts the certificate that the replica made for itself.
func (r *replica) probe(ctx context.Context) error {
	certificate, err := os.ReadFile(r.certs + "/cloud-controller-manager.crt")
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) + "/readyz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport, Timeout: time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz says %s", response.Status)
	}
	return nil
}

// freePort returns a port of loopback that nobody uses. Somebody may take it before the replica does; the replica then ends
// with an error that says so.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

// lastLine returns the last line of a log, where a program that fails says why.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}
