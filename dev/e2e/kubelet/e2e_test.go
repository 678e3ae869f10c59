// Package kubelet_test runs real kubelets with --cloud-provider=external against a real control plane without
// --cloud-provider, and Mooring with the simulated cloud between them.
package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/e2e/worker"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// managerVariable holds, for the inside of the sandbox, where the cloud-controller-manager is.
const managerVariable = "MOORING_TEST_MANAGER"

var uninitialized = corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}

func TestKubelets(t *testing.T) {
	if !sandbox.Inside() {
		outside(t)
		return
	}
	fixture := newFixture(t)
	// Each stage rests on the one before.
	passed := t.Run("registered and ready, with the taint", fixture.registered) &&
		t.Run("not reached, because they have no certificates", fixture.uncertified) &&
		t.Run("agents register like kubelets", fixture.agentsAgree)
	if passed {
		fixture.startManager(t)
		passed = t.Run("initialized by Mooring and schedulable", fixture.initialized) &&
			t.Run("reached with verified certificates", fixture.certified) &&
			t.Run("still so after the kubelets reported again", fixture.stable)
	}
	if !passed {
		fixture.quoteLogs(t)
	}
}

// outside builds what the sandbox, which has no network, needs, and runs it.
func outside(t *testing.T) {
	sandbox.Require(t, "containerd", "ip", "nsenter")
	localclustertest.Build(t, localcluster.Parts()...)
	manager := filepath.Join(t.TempDir(), "cloud-controller-manager")
	if err := harness.BuildDaemon(t.Context(), manager, os.Stderr); err != nil {
		t.Fatal(err)
	}
	sandbox.Run(t, sandbox.Options{
		Env:     []string{managerVariable + "=" + manager},
		Sysctls: worker.Sysctls,
		Dirs:    worker.Dirs,
		Cgroups: worker.Cgroups, Alone: []string{worker.PodCgroup},
		Timeout: 8 * time.Minute, // Each wait inside may take its minute on a busy machine.
	})
}

// fixture is everything that runs in the sandbox.
type fixture struct {
	dir      string
	cluster  *localcluster.Cluster
	client   kubernetes.Interface
	cloud    *simtest.Cloud
	programs []*worker.Program
}

// newFixture starts the control plane, the cloud with an instance for each machine, and the kubelets.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	own := []netip.Prefix{netip.MustParsePrefix("10.77.0.1/24"), netip.MustParsePrefix("fd00:77::1/64")}
	l := &fixture{dir: sandbox.Furnish(t)}
	segment := sandbox.NewSegment(t, own...)
	l.cluster = localclustertest.Start(t, localclustertest.WithControllerManager, func(options *localcluster.Options) {
		options.Dir = filepath.Join(l.dir, "controlplane")
		options.BindAddress = own[0].Addr()
		options.APIServerArgs = []string{
			"--kubelet-certificate-authority=" + filepath.Join(options.Dir, "pki", "ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		}
	})
	l.client = kubernetes.NewForConfigOrDie(l.cluster.AdminConfig())
	l.cloud = simtest.Start(t, cloudsim.Options{})
	containerd, socket := worker.StartContainerd(t, l.dir)
	l.programs = append(l.programs, containerd)
	for _, m := range machines() {
		l.cloud.Create(t, instance(m))
		host := segment.NewHost(t, m.name, m.v4, m.v6)
		l.programs = append(l.programs, worker.StartKubelet(t, l.cluster, host, worker.Kubelet{Name: m.name, NodeIPs: m.nodeIPs, ServerTLSBootstrap: true}, filepath.Join(l.dir, m.name), socket))
	}
	return l
}

// registered shows what kubelets do before there is a cloud controller manager.
func (l *fixture) registered(t *testing.T) {
	for _, m := range machines() {
		node := l.waitFor(t, m, "is ready and has only the taint of the cloud", func(node *corev1.Node) error {
			if diff := cmp.Diff([]corev1.Taint{uninitialized}, node.Spec.Taints); diff != "" {
				return fmt.Errorf("taints (-want +got):\n%s", diff)
			}
			return ready(node)
		})
		if schedulable(node) == nil {
			t.Errorf("node %s can be scheduled to before it is initialized", m.name)
		}
		if got := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; got != m.nodeIP() {
			t.Errorf("node %s: provided node IP %q, want %q", m.name, got, m.nodeIP())
		}
		if got, want := node.Status.NodeInfo.KubeletVersion, localclustertest.Build(t).Version(); got != want {
			t.Errorf("node %s: kubelet %s, want %s", m.name, got, want)
		}
	}
}

// startManager starts the real cloud-controller-manager with the rights that Mooring ships.
func (l *fixture) startManager(t *testing.T) {
	t.Helper()
	l.programs = append(l.programs, worker.StartManager(t, harness.Manager{
		Name: "cloud-controller-manager", Dir: l.dir, Path: os.Getenv(managerVariable), Kubeconfig: managerKubeconfig(t, l.cluster),
		CloudConfig: l.cloud.ConfigFile, Flags: []string{"--cloud-provider=sim", "--controllers=*,kubelet-serving-certificate", "--v=2"},
	}))
}

func (l *fixture) initialized(t *testing.T) {
	begun := time.Now()
	for _, m := range machines() {
		node := l.waitFor(t, m, "is ready and schedulable", func(node *corev1.Node) error {
			return errors.Join(ready(node), schedulable(node))
		})
		l.compare(t, m, node)
	}
	t.Logf("all nodes initialized %s after the start of the cloud-controller-manager", time.Since(begun))
}

// stable looks again after each kubelet has written its status: neither side undoes what the other did.
func (l *fixture) stable(t *testing.T) {
	now := metav1.Now()
	for _, m := range machines() {
		node := l.waitFor(t, m, "reported again", func(node *corev1.Node) error {
			if heartbeat := condition(node, corev1.NodeReady).LastHeartbeatTime; !now.Before(&heartbeat) {
				return fmt.Errorf("last heartbeat at %s, want one after %s", heartbeat, now)
			}
			return nil
		})
		if err := errors.Join(ready(node), schedulable(node)); err != nil {
			t.Errorf("node %s: %v", m.name, err)
		}
		l.compare(t, m, node)
	}
}

// compare compares a node with the instance that the cloud has for it.
func (l *fixture) compare(t *testing.T, m machine, node *corev1.Node) {
	t.Helper()
	instance, err := l.cloud.Client.GetInstanceByName(t.Context(), m.name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantAddresses(m), node.Status.Addresses); diff != "" {
		t.Errorf("node %s: addresses (-want +got):\n%s", m.name, diff)
	}
	if want := "sim://" + instance.ID; node.Spec.ProviderID != want {
		t.Errorf("node %s: provider ID %q, want %q", m.name, node.Spec.ProviderID, want)
	}
	for key, want := range map[string]string{
		corev1.LabelInstanceTypeStable: instance.MachineType, corev1.LabelInstanceType: instance.MachineType,
		corev1.LabelTopologyZone: instance.Zone, corev1.LabelFailureDomainBetaZone: instance.Zone,
		corev1.LabelTopologyRegion: instance.Region, corev1.LabelFailureDomainBetaRegion: instance.Region,
		corev1.LabelHostname: m.name,
	} {
		if got := node.Labels[key]; got != want {
			t.Errorf("node %s: label %s = %q, want %q", m.name, key, got, want)
		}
	}
}

// waitFor waits until a node is as wanted, and returns it.
func (l *fixture) waitFor(t *testing.T, m machine, what string, check func(*corev1.Node) error) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	worker.Poll(t, fmt.Sprintf("node %s %s", m.name, what), l.programs, func(ctx context.Context) error {
		var err error
		if node, err = l.client.CoreV1().Nodes().Get(ctx, m.name, metav1.GetOptions{}); err != nil {
			return err
		}
		return check(node)
	})
	return node
}

// quoteLogs shows the end of what each program wrote.
func (l *fixture) quoteLogs(t *testing.T) {
	t.Helper()
	for _, program := range l.programs {
		t.Logf("the end of the log of %s:\n%s", program.Name, program.Tail())
	}
}

func ready(node *corev1.Node) error {
	if is := condition(node, corev1.NodeReady); is.Status != corev1.ConditionTrue {
		return fmt.Errorf("condition Ready is %q: %s", is.Status, is.Message)
	}
	return nil
}

// schedulable asks the scheduler's own question for a pod without tolerations.
func schedulable(node *corev1.Node) error {
	repels := func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }
	taint, found := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, nil, repels, false)
	if found || node.Spec.Unschedulable {
		return fmt.Errorf("no pod is scheduled here: taint %q, unschedulable %v", taint.ToString(), node.Spec.Unschedulable)
	}
	return nil
}

func condition(node *corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.NodeCondition{}
}
