package ccm_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
)

// failedWatch is how client-go logs that a request of an informer has failed, after which it backs off for up to a minute.
var failedWatch = regexp.MustCompile(`.*"(Watch failed - backing off|watch-list failed - backing off|Failed to watch)".*type="\*v1\.(Node|Service)".*`)

// TestWatchesWaitForAnOutageToEnd stops the API server under a manager. No request of its caches fails, so none is delayed when
// the API server is back. How soon they are back is tested in virtual time, by internal/reconnect.
func TestWatchesWaitForAnOutageToEnd(t *testing.T) {
	cluster := localclustertest.Start(t, func(o *localcluster.Options) { o.Audit = "Metadata" })
	ctx := context.WithoutCancel(t.Context())
	h := newHarborOn(t, cluster, shippedIdentity(t, cluster), 2)
	h.args = append(h.args, "--leader-elect=false", "--v=4")
	h.join(t, 1)
	manager, _ := h.replica(t)
	h.await(t, "node-001", "is initialized", isComplete)

	if err := cluster.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	manager.awaitOutput(t, `"API server unavailable; watches wait" url="`+cluster.AdminConfig().Host+`"`)
	if err := cluster.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	h.join(t, 2)
	h.await(t, "node-002", "is initialized after the outage", isComplete)
	manager.awaitOutput(t, `"API server available again; watches resume"`)
	output := manager.Output()
	if failed := failedWatch.FindAllString(output, -1); len(failed) > 0 {
		t.Errorf("requests of the caches failed:\n%s", strings.Join(failed, "\n"))
	}
	if lines := strings.Count(output, "API server unavailable"); lines != 1 {
		t.Errorf("the log has %d lines about one outage", lines)
	}
}
