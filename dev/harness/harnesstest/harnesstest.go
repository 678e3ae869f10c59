// Package harnesstest runs managers as processes until a test ends.
package harnesstest

import (
	"testing"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/program"
)

// Of returns a control plane that runs, after the identities have got their rights.
func Of(t testing.TB, running *localcluster.Cluster, identities ...harness.Identity) *harness.Cluster {
	t.Helper()
	cluster, err := harness.Of(t.Context(), running, identities...)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// Start starts a manager, which is killed when the test ends. What it has written is logged if the test failed. Its directory is a temporary
// one unless it has one. The cluster may be nil if it has a kubeconfig.
func Start(t testing.TB, cluster *harness.Cluster, manager harness.Manager) *program.Program {
	t.Helper()
	if manager.Dir == "" {
		manager.Dir = t.TempDir()
	}
	command, err := manager.Command(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	return localclustertest.StartProgram(t, command)
}
