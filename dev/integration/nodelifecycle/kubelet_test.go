package nodelifecycle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// use replaces the shared control plane with the test's own.
func use(t *testing.T, own *localcluster.Cluster) {
	t.Helper()
	shared, sharedAdmin := cluster, admin
	cluster, admin = own, kubernetes.NewForConfigOrDie(own.AdminConfig())
	t.Cleanup(func() { cluster, admin = shared, sharedAdmin })
	must.NoError(t, own.Apply(t.Context(), deploy.RBAC))
}

// machine is a node with a kubelet that lives until it falls silent.
func machine(t *testing.T, i int) (name string, agent *nodeagent.Agent) {
	t.Helper()
	name = nodeName(i)
	agent, err := nodeagent.New(cluster.AdminConfig(), nodeagent.Options{
		Name: name, ProviderID: providerID(i), LeaseDuration: time.Second, StatusPeriod: time.Second,
	})
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	waitFor(t, name, "is ready", isReady)
	change(t, name, func(n *corev1.Node) { // as the node controller does
		n.Spec.Taints = nil
	})
	return name, agent
}

func isReady(n *corev1.Node) error { return isIn(n, corev1.ConditionTrue) }

func isIn(n *corev1.Node, want corev1.ConditionStatus) error {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == want {
			return nil
		}
	}
	return errors.New("its Ready condition is not " + string(want))
}

// The whole way, with the controller manager of Kubernetes that notices a kubelet's silence.
func TestNodesThatFallSilent(t *testing.T) {
	use(t, localclustertest.Start(t, localclustertest.WithControllerManager, func(o *localcluster.Options) {
		o.NodeMonitorGracePeriod = 10 * time.Second // a busy machine may keep a kubelet from reporting for some seconds
		o.Audit = auditv1.LevelMetadata
	}))
	running, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(6)})
	lost, lostAgent := machine(t, 1)
	off, offAgent := machine(t, 2)
	silent, silentAgent := machine(t, 3)
	lives, _ := machine(t, 4)
	for i := 5; i <= 6; i++ {
		machine(t, i)
	}
	m := start(t, options{Cloud: provider})

	running.Delete(t, lost)
	running.Delete(t, lives) // a kubelet that reports knows better
	running.Change(t, off, func(spec *api.InstanceSpec) { spec.Power = api.PowerOff })
	lostAgent.Silence()
	offAgent.Silence()
	silentAgent.Silence()
	waitGone(t, lost)
	waitTainted(t, off, true)
	waitFor(t, silent, "is not ready", func(n *corev1.Node) error { return isIn(n, corev1.ConditionUnknown) })

	running.Change(t, off, func(spec *api.InstanceSpec) { spec.Power = api.PowerOn })
	offAgent.Resume()
	waitFor(t, off, "is ready", isReady)
	waitTainted(t, off, false)
	m.waitPasses(t, 3)
	if got := present(t, off, silent, lives); len(got) != 3 {
		t.Errorf("only %v are left", got)
	}
	waitFor(t, silent, "is not tainted as shut down", func(n *corev1.Node) error {
		if hasTaint(n, cloudproviderapi.TaintNodeShutdown) {
			return errors.New("it is")
		}
		return nil
	})
}
