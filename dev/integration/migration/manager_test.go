package migration_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/program"
)

// manager is a process of one of the two managers.
type manager struct {
	*program.Program
	kind    string
	stopped bool
}

// start starts a manager with the flags that both have. It gets no other flags than the other one.
func (s *scene) start(t *testing.T, kind string) *manager {
	t.Helper()
	self, err := os.Executable()
	must.NoError(t, err)
	m := &manager{kind: kind, Program: harnesstest.Start(t, s.cluster, harness.Manager{
		Name: kind, Path: self, Identity: identities[kind], CloudConfig: s.cloud.ConfigFile, Env: []string{program.SelfEnv + "=" + kind},
		Flags: []string{
			"--secure-port=0", "--cloud-provider=" + agentProvider, "--cluster-cidr=" + podCIDR, "--allocate-node-cidrs=true",
			"--configure-cloud-routes=true",
			// A leader on a busy machine has to renew its lease in time.
			"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=500ms",
			"--route-reconciliation-period=1s", "--node-status-update-frequency=1s",
		},
	})}
	t.Cleanup(func() { m.stop(t) })
	return m
}

// stop ends a manager with SIGTERM, as a kubelet does. The reference has no handler for it: it dies, and its lease runs out.
func (m *manager) stop(t *testing.T) {
	t.Helper()
	if m.stopped {
		return
	}
	m.stopped = true
	must.NoError(t, m.Signal(syscall.SIGTERM))
	code := localclustertest.AwaitEnd(t, m.Program)
	killed := m.State().Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM
	if code != 0 && (m.kind != reference || !killed) {
		t.Errorf("the %s manager ended with %s", m.kind, m.State())
	}
}

func (m *manager) hasSaid(what string) bool {
	return strings.Contains(strings.ToLower(m.Output()), strings.ToLower(what))
}
