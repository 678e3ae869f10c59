package provider

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/poll"
)

const (
	// nodeCount is how many servers join at first. One more exists, and joins while keystone is away.
	nodeCount = 20
	// stoppedServer and deletedServer are what becomes of two of them, and lateServer is the one more.
	stoppedServer, deletedServer, lateServer = nodeCount - 2, nodeCount - 1, nodeCount
	// externalCIDR holds the floating IPs, and serverCIDR the addresses of servers.
	externalCIDR, serverCIDR = "203.0.113.0/24", "192.168.0.0/22"
)

// project is one of OpenStack with servers, in which two clusters run side by side: "harbor" with octavia's driver ovn and routes for all of its nodes,
// and "pier" with the driver amphora on three of the servers.
type project struct {
	tenancy
	// dir has logs and cloud configs, and is kept when the test fails.
	dir string
	// daemon is the program, as it is shipped.
	daemon  string
	servers []servers.Server
	harbor  *site
	pier    *site
}

// TestEndToEnd runs the daemon on the services, from servers that join to what is left behind, and has one thing after the other fail. All the
// while nodes and Services that a fault does not concern have to stay as they are.
func TestEndToEnd(t *testing.T) {
	w := &project{tenancy: newTenancy(t, "endtoend")}
	w.build(t)
	w.makeServers(t)
	w.harbor, w.pier = w.newSite(t, "harbor", "ovn"), w.newSite(t, "pier", "amphora")
	began := time.Now()
	for _, stage := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"servers join", w.join},
		{"routes", w.routes},
		{"Services of each kind", w.kinds},
		{"a server stops and another is deleted", w.serversGo},
		{"credentials are rotated", w.rotate},
		{"the worker is killed in the middle of a creation", w.killWorker},
		{"keystone is away", w.withoutKeystone},
		{"a quota is exceeded", w.exceedQuota},
		{"orphans are found", w.orphans},
		{"all Services are deleted", w.end},
	} {
		passed := t.Run(stage.name, stage.run)
		for _, s := range []*site{w.harbor, w.pier} {
			passed = s.witness.report(t) && s.alive(t) && passed
		}
		if !passed {
			t.Logf("logs of the managers are kept in %s", w.dir)
			return
		}
	}
	t.Logf("all stages took %.0f s", time.Since(began).Seconds())
}

// build builds the daemon.
func (w *project) build(t *testing.T) {
	var err error
	w.dir, err = os.MkdirTemp("", "mooring-endtoend-")
	must.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			must.NoError(t, os.RemoveAll(w.dir))
		}
	})
	w.daemon = filepath.Join(w.dir, "cloud-controller-manager")
	must.NoError(t, harness.BuildDaemon(t.Context(), w.daemon, os.Stderr))
}

func (w *project) makeServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
	defer cancel()
	var names []string
	for i := range nodeCount + 1 {
		names = append(names, serverName(i))
	}
	var err error
	w.servers, err = w.environment.CreateServers(ctx, openstack.ServerOptions{Names: names})
	must.NoError(t, err)
}

func serverName(number int) string { return fmt.Sprintf("server-%02d", number) }

// until looks again and again until nothing is missing.
func until(t *testing.T, what string, missing func(ctx context.Context) error) {
	t.Helper()
	poll.Within(t, eventually, what, func(ctx context.Context) error {
		err := missing(ctx)
		if err != nil {
			select {
			case <-time.After(lookAgain):
			case <-ctx.Done():
			}
		}
		return err
	})
}
