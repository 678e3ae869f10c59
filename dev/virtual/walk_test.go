//go:build walk

package virtual

import (
	"fmt"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/dev/walk"
	"github.com/mooring-ccm/mooring/dev/walk/trace"
)

// TestWalk prints the walks of one Service to its address, and of one node to the removal of its taint. The command walk runs it.
func TestWalk(t *testing.T) {
	t.Run("Service", func(t *testing.T) {
		virtually(t, faulty.Options{LoadBalancerWrites: 4}, serviceController, func(r *run) {
			r.joined("node")
			time.Sleep(time.Hour)
			trace.Start()
			r.balanced("service")
			r.within(prompt, "the address of the Service", func() bool { return r.served("service") })
			time.Sleep(prompt)
			fmt.Println("a Service to its address:", walk.Count(trace.Stop(), "internal/controller/service/reconcile.go", "reconciler.Reconcile"))
		})
	})
	t.Run("node", func(t *testing.T) {
		virtually(t, faulty.Options{}, nodeController(0), func(r *run) {
			time.Sleep(time.Hour)
			trace.Start()
			r.join("node")
			r.initialized(prompt, "node")
			time.Sleep(prompt)
			fmt.Println("a node to the removal of its taint:", walk.Count(trace.Stop(), "internal/controller/node/reconcile.go", "reconciler.Reconcile"))
		})
	})
}
