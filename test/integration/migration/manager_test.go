package migration_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mooring-ccm/mooring/test/integration/harness"
)

// manager is a process of one of the two managers.
type manager struct {
	kind, log string
	command   *exec.Cmd
	stopped   bool
}

// start starts a manager with the flags that both have. It gets no other flags than the other one.
func (s *scene) start(t *testing.T, kind string) *manager {
	t.Helper()
	dir := t.TempDir()
	m := &manager{kind: kind, log: filepath.Join(dir, "log")}
	kubeconfig := s.kubeconfigs[kind]
	m.command = exec.Command(os.Args[0],
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--secure-port=0", "--cert-dir="+dir, "--cloud-provider="+agentProvider, "--cloud-config="+s.cloud.ConfigFile,
		"--cluster-cidr="+podCIDR, "--allocate-node-cidrs=true", "--configure-cloud-routes=true",
		"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms",
		"--route-reconciliation-period=1s", "--node-status-update-frequency=1s")
	m.command.Env = append(os.Environ(), asProgram+"="+kind)
	m.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(m.log)
	harness.Must(t, err)
	defer log.Close()
	m.command.Stdout, m.command.Stderr = log, log
	harness.Must(t, m.command.Start())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the %s manager said:\n%s", kind, m.said(t))
		}
		m.stop(t)
	})
	return m
}

// stop ends a manager with SIGTERM, as a kubelet does. The reference has no handler for it: it dies, and its lease runs out.
func (m *manager) stop(t *testing.T) {
	t.Helper()
	if m.stopped {
		return
	}
	m.stopped = true
	harness.Must(t, m.command.Process.Signal(syscall.SIGTERM))
	err := m.command.Wait()
	var exit *exec.ExitError
	killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM
	if err != nil && (m.kind != reference || !killed) {
		t.Errorf("the %s manager ended with %v; it said\n%s", m.kind, err, m.said(t))
	}
}

func (m *manager) said(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(m.log)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func (m *manager) hasSaid(t *testing.T, what string) bool {
	t.Helper()
	return strings.Contains(strings.ToLower(m.said(t)), strings.ToLower(what))
}
