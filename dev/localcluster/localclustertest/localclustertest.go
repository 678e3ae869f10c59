// Package localclustertest gives a test a control plane of its own.
package localclustertest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// stopTimeout is when a control plane that does not stop is killed.
const stopTimeout = 30 * time.Second

// Needed skips a test under -short: a control plane takes seconds to start, and minutes to build.
func Needed(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane, which -short leaves out")
	}
}

// Start starts a control plane that is stopped when the test and its other clean-ups are through. It builds what is not
// cached, with progress on standard error. The directory of a failed test is kept, and its place logged; a directory that
// an option names is the test's own and always kept.
//
// Later options win: each may change what the ones before it set. Under -short the test is skipped.
func Start(t testing.TB, options ...func(*localcluster.Options)) *localcluster.Cluster {
	t.Helper()
	Needed(t)
	all := localcluster.Options{Binaries: Build(t, localcluster.ControlPlane)}
	for _, option := range options {
		option(&all)
	}
	temporary := all.Dir == ""
	if temporary {
		var err error
		// Not the test's own temporary directory: that one is removed although the test failed.
		if all.Dir, err = os.MkdirTemp("", "mooring-localcluster-"); err != nil {
			t.Fatalf("make a directory for the control plane: %v", err)
		}
	}
	// Not the test's context: that one ends before the clean-ups, which may still need the API server.
	cluster, err := localcluster.Start(context.WithoutCancel(t.Context()), all)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { stop(t, cluster, temporary) })
	return cluster
}

// Build returns built programs, with progress on standard error while something is built. Under -short the test is skipped.
func Build(t testing.TB, parts ...localcluster.Part) localcluster.Binaries {
	t.Helper()
	Needed(t)
	binaries, err := localcluster.Build(t.Context(), localcluster.BuildOptions{Parts: parts, Progress: os.Stderr})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return binaries
}

func stop(t testing.TB, cluster *localcluster.Cluster, temporary bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
	defer cancel()
	if err := cluster.Stop(ctx); err != nil {
		t.Errorf("%v", err)
	}
	if t.Failed() {
		t.Logf("logs and data of the control plane are kept in %s", cluster.Dir())
		return
	}
	if temporary {
		if err := os.RemoveAll(cluster.Dir()); err != nil {
			t.Errorf("remove the control plane's directory: %v", err)
		}
	}
}

// WithControllerManager runs kube-controller-manager too. It looks at the health of nodes every second, so a test
// need not wait for its default of 5 s.
func WithControllerManager(options *localcluster.Options) {
	options.ControllerManager = true
	options.NodeMonitorPeriod = time.Second
}
