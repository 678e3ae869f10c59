package migration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// TestExchangeWhileObjectsWait exchanges the managers, in both directions, while a Service waits for its load balancer, which the cloud
// refuses, and a node joins: see docs/how-to/uninstall.md.
func TestExchangeWhileObjectsWait(t *testing.T) {
	s := newScene(t)
	now := s.start(t, reference)
	s.join(t, "node-001", "node-002", "node-003")
	s.serve(t, "web", nil)
	s.serveByAgent(t, byAgent)
	s.awaitWhole(t, nodesBefore, 1)
	leader := s.awaitLeader(t)
	for i, kind := range []string{mooring, reference} {
		before := s.seen(t)
		waits := fmt.Sprintf("waits-for-%s", kind)
		must.NoError(t, s.cloud.Service.AddFault(api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultStatus, Status: 503, Count: 1000}))
		s.serve(t, waits, nil)
		s.awaitRefused(t)

		next := s.start(t, kind)
		poll.Until(t, "the "+kind+" manager waits for the lease", func(context.Context) error {
			if !next.hasSaid("attempting to acquire leader lease") {
				return errors.New("it has not said so")
			}
			return nil
		})
		now.stop(t)
		s.join(t, fmt.Sprintf("node-%03d", nodesBefore+1+i))
		leader = s.awaitLeader(t, leader)
		s.awaitRefused(t)
		s.cloud.Service.ClearFaults()
		s.awaitWhole(t, nodesBefore+1+i, 2)
		checkKept(t, before, s.seen(t))

		// Nothing of the former manager's blocks a deletion.
		s.remove(t, waits)
		s.awaitWhole(t, nodesBefore+1+i, 1)
		now = next
	}
}

// awaitRefused waits until the cloud has refused to make a load balancer once more.
func (s *scene) awaitRefused(t *testing.T) {
	t.Helper()
	refused := func() int64 { return s.cloud.Service.Counts().Operations[api.OpCreateLoadBalancer].Faulted }
	before := refused()
	poll.Until(t, "the leader asks for a load balancer in vain", func(context.Context) error {
		if refused() == before {
			return errors.New("it has not asked")
		}
		return nil
	})
}

// remove deletes a Service and waits until it is gone.
func (s *scene) remove(t *testing.T, name string) {
	t.Helper()
	services := s.client.CoreV1().Services(namespace)
	must.NoError(t, services.Delete(t.Context(), name, metav1.DeleteOptions{}))
	poll.Until(t, "Service "+name+" is gone", func(ctx context.Context) error {
		switch _, err := services.Get(ctx, name, metav1.GetOptions{}); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		default:
			return errors.New("it is there")
		}
	})
}
