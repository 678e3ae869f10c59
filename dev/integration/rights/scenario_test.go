package rights_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// step makes the manager do one kind of its work, and waits until that is done. Steps rest on those before them.
type step struct {
	name string
	do   func(t *testing.T, s *scenario)
}

// controllerSteps are the work of all controllers. Each has its own in a file of its own.
func controllerSteps() []step {
	return slices.Concat(nodeSteps(), nodeLifecycleSteps(), routeSteps(), serviceSteps())
}

// scenario is what the steps share.
type scenario struct {
	// lifetime is the test that everything lives as long as.
	lifetime *testing.T
	cluster  *managers.Cluster
	admin    *kubernetes.Clientset
	cloud    *simtest.Cloud // nil with the provider metal
	// kubeconfig is the manager's kubeconfig.
	kubeconfig string
	// reader is the kubeconfig of an identity that may read every served path, see mayReadAll.
	reader string
	// args are how each replica is started.
	args []string
	// replicas are all that were started; leading is the one that leads.
	replicas []*daemon
	leading  int
	// instances is how many instances there have been.
	instances int
	// ready is the path that says that a replica was started.
	ready string
	// recorded is the version of the record of load balancers when the first was in it.
	recorded string
}

// initialInstances is how many instances the cloud has at first.
const initialInstances = 3

// newScenario starts a control plane with the rights of a manifest. The manager acts as the ServiceAccount
// kube-system/cloud-controller-manager.
func newScenario(t *testing.T, rights []byte, apiServerArgs ...string) *scenario {
	t.Helper()
	s := &scenario{lifetime: t, ready: "/readyz"}
	manager := managers.Identity{Account: programName, Rights: [][]byte{rights}}
	s.cluster = harnesstest.Of(t, localclustertest.Start(t, func(options *localcluster.Options) {
		options.Audit, options.APIServerArgs = auditv1.LevelMetadata, apiServerArgs
	}), manager)
	s.admin = s.cluster.Client
	var err error
	s.kubeconfig, err = s.cluster.Kubeconfig(t.Context(), manager)
	must.NoError(t, err)
	s.args = []string{"--kubeconfig=" + s.kubeconfig}
	s.awaitRights(t, rights)
	return s
}

// newSimScenario is newScenario with the simulated cloud.
func newSimScenario(t *testing.T, rights []byte, apiServerArgs ...string) *scenario {
	t.Helper()
	s := newScenario(t, rights, apiServerArgs...)
	s.instances = initialInstances
	s.cloud = simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(initialInstances)})
	s.args = slices.Concat(s.args, []string{"--cloud-provider=sim", "--cloud-config=" + s.cloud.ConfigFile},
		nodeFlags, nodeLifecycleFlags, routeFlags, serviceFlags)
	return s
}

// delegate has the API server authenticate and authorize requests to the secure port.
func (s *scenario) delegate() {
	s.args = append(s.args, "--authentication-kubeconfig="+s.kubeconfig, "--authorization-kubeconfig="+s.kubeconfig)
}

// launch starts a replica and waits until it says that it was started: that it leads or can take over, unless said otherwise.
func (s *scenario) launch(t *testing.T) {
	t.Helper()
	started := launch(t, s.lifetime, s.args...)
	s.replicas = append(s.replicas, started)
	started.await(t, s.ready)
}

// run runs the steps until one fails.
func (s *scenario) run(t *testing.T, steps ...[]step) {
	t.Helper()
	for _, next := range slices.Concat(steps...) {
		if !t.Run(next.name, func(t *testing.T) { next.do(t, s) }) {
			t.FailNow()
		}
	}
}

// leader returns the replica that leads.
func (s *scenario) leader() *daemon { return s.replicas[s.leading] }

// end ends every replica and the API server, and returns everything that was asked for: the audit log has an entry for a watch
// only when that has ended.
func (s *scenario) end(t *testing.T) map[request]int {
	t.Helper()
	for _, replica := range s.replicas {
		if replica.State() == nil {
			replica.terminate(t)
		}
	}
	must.NoError(t, s.cluster.StopAPIServer(t.Context()))
	events, err := s.cluster.AuditEvents(t.Context())
	must.NoError(t, err)
	return requestsOf(events)
}

// managerStarts makes two replicas of the manager, one of which leads.
func managerStarts() []step {
	return []step{
		{"one replica leads", func(t *testing.T, s *scenario) {
			s.launch(t)
			s.awaitHolder(t, "")
		}},
		{"another stands by", func(t *testing.T, s *scenario) { s.launch(t) }},
	}
}

// managerHandsOver ends the leader, after which the standby does the work.
func managerHandsOver() []step {
	return []step{
		{"the leader ends and the standby takes over", func(t *testing.T, s *scenario) {
			before := s.holder(t)
			s.leader().terminate(t)
			s.leading++
			s.awaitHolder(t, before)
			s.join(t, s.create(t))
		}},
	}
}

// holder returns the identity that holds the lease; empty if no replica does.
func (s *scenario) holder(t *testing.T) string {
	t.Helper()
	holder, err := s.cluster.Leader(t.Context())
	must.NoError(t, err)
	return holder
}

// awaitHolder waits until a replica other than before holds the lease.
func (s *scenario) awaitHolder(t *testing.T, before string) {
	t.Helper()
	poll.Until(t, "a replica holds the lease", func(ctx context.Context) error {
		return s.cluster.Led(ctx, before)
	})
}

// awaitNode waits until a node is as wanted, and returns it.
func (s *scenario) awaitNode(t *testing.T, name, what string, problem func(*corev1.Node) error) *corev1.Node {
	t.Helper()
	var found *corev1.Node
	poll.Until(t, "node "+name+" "+what, func(ctx context.Context) (err error) {
		if found, err = s.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		return problem(found)
	})
	return found
}

// awaitEvent waits until the same event was repeated so many times.
func (s *scenario) awaitEvent(t *testing.T, about, reason string, times int32) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the event %s is on %s, %d times", reason, about, times), func(ctx context.Context) error {
		return s.hasEvent(ctx, about, reason, times)
	})
}

// hasEvent returns an error unless the same event was repeated so many times.
func (s *scenario) hasEvent(ctx context.Context, about, reason string, times int32) error {
	events, err := s.admin.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: "reason=" + reason + ",involvedObject.name=" + about,
	})
	if err != nil {
		return err
	}
	for _, event := range events.Items {
		if event.Count >= times {
			return nil
		}
	}
	return errors.New("it is not")
}
