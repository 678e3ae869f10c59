package migration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// TestMigrateAndRollBack follows docs/how-to/migrate-from-the-reference.md: the second manager is started beside the first,
// waits for the lease, and takes over when the first one ends. Nothing that users have may change by that.
func TestMigrateAndRollBack(t *testing.T) {
	s := newScene(t)
	theirs := s.start(t, reference)
	s.join(t, "node-001", "node-002", "node-003")
	s.serve(t, "web", nil)
	s.serve(t, "local", func(service *corev1.Service) {
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		service.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
	})
	s.serveByAgent(t, byAgent)
	s.awaitWhole(t, nodesBefore, 2)
	leader := s.awaitLeader(t)

	t.Log("Mooring waits while the reference leads")
	ours := s.start(t, mooring)
	before := s.takeOver(t, theirs, ours, leader)
	leader = s.awaitLeader(t, leader)
	s.awaitSettled(t, before, 2)
	// The plugin of the simulated cloud tags load balancers with the UID of the cluster, which the reference does not give it (ADR
	// 45), and Services get their condition. That is all.
	if diff := cmp.Diff(before.state.migrated(s.clusterUID(t)), s.seen(t)); diff != "" {
		t.Errorf("after the migration (-want +got):\n%s", diff)
	}
	s.checkChanges(t, before, map[api.Operation]int64{api.OpUpdateLoadBalancer: 2})
	if asked := s.calls(before.calls)[api.OpGetLoadBalancer]; asked != 2 {
		t.Errorf("the plugin looked at load balancers %d times, want once for each (ADR 43)", asked)
	}
	s.checkWrites(t, mooring, before, map[string]int{
		"patch services/status local": 1, "patch services/status web": 1, "patch services/status " + byAgent: 1,
	})

	t.Log("Mooring goes on where the reference ended")
	s.join(t, "node-004")
	s.serve(t, "second", nil)
	s.awaitWhole(t, nodesBefore+1, 3)
	checkKept(t, before.state, s.seen(t))

	t.Log("back: the reference waits while Mooring leads")
	theirs = s.start(t, reference)
	back := s.takeOver(t, ours, theirs, leader)
	s.awaitLeader(t, leader)
	s.awaitSettled(t, back, 3)
	if diff := cmp.Diff(back.state, s.seen(t)); diff != "" {
		t.Errorf("after the way back (-want +got):\n%s", diff)
	}
	s.checkChanges(t, back, nil)
	s.checkWrites(t, reference, back, nil)

	t.Log("the reference goes on where Mooring ended")
	s.join(t, "node-005")
	s.serve(t, "third", nil)
	s.awaitWhole(t, nodesBefore+2, 4)
	checkKept(t, before.state, s.seen(t))
}

// reading is how everything was right before a handover.
type reading struct {
	state state
	calls map[api.Operation]int64
	audit harness.Mark
}

// takeOver shows that the next manager waits for the lease and changes nothing meanwhile, then stops the one that leads. It
// returns what was there right before.
func (s *scene) takeOver(t *testing.T, now, next *manager, leader string) reading {
	t.Helper()
	before := reading{state: s.seen(t), audit: s.audited(t), calls: s.calls(nil)}
	poll.Until(t, "the "+next.kind+" manager waits for the lease", func(context.Context) error {
		if !next.hasSaid("attempting to acquire leader lease") {
			return errors.New("it has not said so")
		}
		return nil
	})
	// The leader goes on all the while: its next comparisons of the nodes, one a second, are time enough for the other to do harm.
	looked := s.lookedAtInstances()
	poll.Until(t, "the "+now.kind+" manager goes on", func(context.Context) error {
		if more := s.lookedAtInstances() - looked; more < nodesBefore {
			return fmt.Errorf("it has looked at instances %d times", more)
		}
		return nil
	})
	if who, err := s.cluster.Leader(t.Context()); err != nil || who != leader {
		t.Errorf("the lease is held by %q, no longer by %q (%v)", who, leader, err)
	}
	if wrote := s.writes(t, next.kind, before.audit); len(wrote) != 0 {
		t.Errorf("the %s manager wrote while it waited: %v", next.kind, wrote)
	}
	if changed := changes(s.calls(before.calls)); len(changed) != 0 {
		t.Errorf("the cloud was changed while the %s manager waited: %v", next.kind, changed)
	}
	before = reading{state: s.seen(t), audit: s.audited(t), calls: s.calls(nil)}
	now.stop(t)
	return before
}

// lookedAtInstances returns how often the cloud was asked for instances: for one by a plugin that is asked node by node, else
// for all.
func (s *scene) lookedAtInstances() int64 {
	return s.cloud.Service.Counts().Received(api.OpListInstances, api.OpGetInstance, api.OpGetInstanceByName)
}

// awaitSettled waits until the new leader has looked at every Service's load balancer and at all routes, and at the instances for
// some seconds more.
func (s *scene) awaitSettled(t *testing.T, before reading, services int64) {
	t.Helper()
	poll.Until(t, "the new leader has looked at everything", func(context.Context) error {
		calls := s.calls(before.calls)
		instances := calls[api.OpListInstances] + calls[api.OpGetInstance] + calls[api.OpGetInstanceByName]
		if calls[api.OpGetLoadBalancer] < services || calls[api.OpListRoutes] < 1 || instances < 2*nodesBefore {
			return fmt.Errorf("calls so far: %v", calls)
		}
		return nil
	})
}

// seen reads the state.
func (s *scene) seen(t *testing.T) state {
	t.Helper()
	now, err := s.look(t.Context())
	must.NoError(t, err)
	return now
}

// checkChanges compares the calls that have changed something in the cloud with the allowed ones.
func (s *scene) checkChanges(t *testing.T, before reading, want map[api.Operation]int64) {
	t.Helper()
	if diff := cmp.Diff(want, changes(s.calls(before.calls)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("calls that change the cloud (-want +got):\n%s", diff)
	}
}

// checkWrites compares what the new leader has written to nodes and Services with what it may.
func (s *scene) checkWrites(t *testing.T, kind string, before reading, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, s.writes(t, kind, before.audit), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("writes of the %s manager (-want +got):\n%s", kind, diff)
	}
}

// checkKept holds what was there at first against what is there now: whatever came since, it is the same load balancers under the
// same addresses, the same routes and the same identities of nodes.
func checkKept(t *testing.T, before, now state) {
	t.Helper()
	for name, was := range before.Balancers {
		is := now.Balancers[name]
		if diff := cmp.Diff([]any{was.ID, was.Addresses}, []any{is.ID, is.Addresses}); diff != "" {
			t.Errorf("load balancer %s (-before +now):\n%s", name, diff)
		}
	}
	for cidr, was := range before.Routes {
		if diff := cmp.Diff(was, now.Routes[cidr]); diff != "" {
			t.Errorf("route to %s (-before +now):\n%s", cidr, diff)
		}
	}
	for name, was := range before.Nodes {
		if diff := cmp.Diff(was.Spec, now.Nodes[name].Spec); diff != "" {
			t.Errorf("node %s (-before +now):\n%s", name, diff)
		}
	}
	for name, was := range before.Services {
		if diff := cmp.Diff(was.Ingress, now.Services[name].Ingress); diff != "" {
			t.Errorf("service %s (-before +now):\n%s", name, diff)
		}
	}
}
