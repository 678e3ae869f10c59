package nodeagent_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
)

var uninitialized = corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}

// TestAgentUnderControllerManager follows nodes as kube-controller-manager sees them, with the rights of kubelets.
func TestAgentUnderControllerManager(t *testing.T) {
	t.Parallel()
	cluster := localclustertest.Start(t, localclustertest.WithControllerManager, func(options *localcluster.Options) {
		options.NodeMonitorGracePeriod = 4 * time.Second
	})
	client := kubernetes.NewForConfigOrDie(cluster.AdminConfig())

	t.Run("registers, becomes ready, keeps the cloud's taint", func(t *testing.T) {
		run(t, cluster, nodeagent.Options{Name: "dual", NodeIPs: addrs("10.1.0.7", "fd00::7"), LeaseDuration: time.Second})
		node := waitForNode(t, client, "dual", "has lost the not-ready taints", func(node *corev1.Node) bool {
			return cmp.Equal(node.Spec.Taints, []corev1.Taint{uninitialized})
		})
		if got := readiness(node); got != corev1.ConditionTrue {
			t.Errorf("the node without not-ready taints has Ready = %s", got)
		}
		if got, want := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr], "10.1.0.7,fd00::7"; got != want {
			t.Errorf("provided node IP = %q, want %q", got, want)
		}
		want := []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.1.0.7"},
			{Type: corev1.NodeInternalIP, Address: "fd00::7"},
			{Type: corev1.NodeHostName, Address: "dual"},
		}
		if diff := cmp.Diff(want, node.Status.Addresses); diff != "" {
			t.Errorf("addresses before the cloud's (-want +got):\n%s", diff)
		}
	})

	t.Run("a silent node becomes unreachable, and ready again when it resumes", func(t *testing.T) {
		agent := run(t, cluster, nodeagent.Options{Name: "silent", LeaseDuration: time.Second})
		waitForNode(t, client, "silent", "is ready", isReady)
		agent.Silence()
		waitForNode(t, client, "silent", "is unknown and tainted unreachable", func(node *corev1.Node) bool {
			return readiness(node) == corev1.ConditionUnknown && hasTaint(node, corev1.TaintNodeUnreachable)
		})
		agent.Resume()
		waitForNode(t, client, "silent", "is ready and no longer tainted unreachable", func(node *corev1.Node) bool {
			return isReady(node) && !hasTaint(node, corev1.TaintNodeUnreachable)
		})
	})

	t.Run("renews a lease that its node owns", func(t *testing.T) { testLease(t, cluster, client) })
}

func testLease(t *testing.T, cluster *localcluster.Cluster, client kubernetes.Interface) {
	run(t, cluster, nodeagent.Options{Name: "leased", LeaseDuration: time.Second})
	node := waitForNode(t, client, "leased", "is ready", isReady)
	var first metav1.MicroTime
	poll.Until(t, "the lease is renewed", func(ctx context.Context) error {
		lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, "leased", metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case first.IsZero():
			first = *lease.Spec.RenewTime
		case len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != node.UID:
			return fmt.Errorf("owners are %v, want the node %s", lease.OwnerReferences, node.UID)
		}
		if !first.Before(lease.Spec.RenewTime) {
			return fmt.Errorf("last renewed at %s", lease.Spec.RenewTime)
		}
		return nil
	})
}

// TestAgentKeepsTheCloudsWork restarts the agent of a node that was initialized in between.
func TestAgentKeepsTheCloudsWork(t *testing.T) {
	t.Parallel()
	cluster := localclustertest.Start(t)
	client := kubernetes.NewForConfigOrDie(cluster.AdminConfig())
	options := nodeagent.Options{Name: "kept", NodeIPs: addrs("10.1.0.8")}
	register(t, cluster, options)

	cloudsAddress := `{"status":{"addresses":[{"type":"ExternalIP","address":"192.0.2.8"},{"$patch":"replace"}]}}`
	patch(t, client, "kept", cloudsAddress, "status")
	patch(t, client, "kept", `{"metadata":{"labels":{"topology.kubernetes.io/zone":"z1","kubernetes.io/os":"wrong"}},`+
		`"spec":{"providerID":"sim://1","taints":null}}`)
	register(t, cluster, options)

	node, err := client.CoreV1().Nodes().Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "192.0.2.8"}}, node.Status.Addresses); diff != "" {
		t.Errorf("the cloud's addresses were changed (-want +got):\n%s", diff)
	}
	if node.Labels[corev1.LabelTopologyZone] != "z1" || node.Spec.ProviderID != "sim://1" || hasTaint(node, uninitialized.Key) {
		t.Errorf("labels %v, provider ID %q, taints %v: the initialization was undone", node.Labels, node.Spec.ProviderID, node.Spec.Taints)
	}
	if got := node.Labels[corev1.LabelOSStable]; got != "linux" {
		t.Errorf("label %s = %q, want a kubelet's own label restored", corev1.LabelOSStable, got)
	}
}

func TestRegisterMany(t *testing.T) {
	t.Parallel()
	const count = 200
	cluster := localclustertest.Start(t)
	client := kubernetes.NewForConfigOrDie(cluster.AdminConfig())
	specs := make([]nodeagent.Options, count)
	for i := range specs {
		specs[i] = nodeagent.Options{Name: fmt.Sprintf("node-%03d", i), NodeIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)})}}
	}
	begun := time.Now()
	agents, err := nodeagent.RegisterMany(t.Context(), cluster.AdminConfig(), specs, 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes registered in %s", count, time.Since(begun))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- nodeagent.RunAll(ctx, agents) }()
	poll.Until(t, "every node has a lease", func(ctx context.Context) error {
		leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
		if err == nil && len(leases.Items) != count {
			err = fmt.Errorf("%d leases", len(leases.Items))
		}
		return err
	})
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("run all agents: %v", err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != count {
		t.Errorf("%d nodes, want %d", len(nodes.Items), count)
	}
	for i := range nodes.Items {
		// Without kube-controller-manager the taint that a new node gets from kube-apiserver stays.
		if node := &nodes.Items[i]; !isReady(node) || !hasTaint(node, uninitialized.Key) || !hasTaint(node, corev1.TaintNodeNotReady) {
			t.Errorf("node %s: Ready %s, taints %v", node.Name, readiness(node), node.Spec.Taints)
		}
	}
}

func TestNewReportsEveryWrongOption(t *testing.T) {
	tests := map[string]struct {
		options nodeagent.Options
		want    []string
	}{
		"name and addresses": {
			nodeagent.Options{Name: "No_Name", NodeIPs: addrs("127.0.0.1")},
			[]string{`Name: Invalid value: "No_Name"`, "NodeIPs: Invalid value: ", "127.0.0.1 cannot be"},
		},
		"one family twice":  {nodeagent.Options{Name: "a", NodeIPs: addrs("10.0.0.1", "10.0.0.2")}, []string{"different families"}},
		"half a second":     {nodeagent.Options{Name: "a", LeaseDuration: time.Second / 2}, []string{"LeaseDuration: Invalid value: \"500ms\""}},
		"too many node IPs": {nodeagent.Options{Name: "a", NodeIPs: addrs("10.0.0.1", "fd00::1", "fd00::2")}, []string{"at most two"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := nodeagent.New(loopbackConfig(), test.options)
			must.ErrorContains(t, err, test.want...)
		})
	}
}

// run runs an agent with the identity of its node until the test ends.
func run(t *testing.T, cluster *localcluster.Cluster, options nodeagent.Options) *nodeagent.Agent {
	t.Helper()
	agent := newAgent(t, cluster, options)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("agent of %s: %v", options.Name, err)
		}
	})
	return agent
}

func register(t *testing.T, cluster *localcluster.Cluster, options nodeagent.Options) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), poll.Deadline)
	defer cancel()
	if err := newAgent(t, cluster, options).Register(ctx); err != nil {
		t.Fatal(err)
	}
}

func newAgent(t *testing.T, cluster *localcluster.Cluster, options nodeagent.Options) *nodeagent.Agent {
	t.Helper()
	config, err := cluster.UserConfig("system:node:"+options.Name, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := nodeagent.New(config, options)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

func patch(t *testing.T, client kubernetes.Interface, name, body string, subresources ...string) {
	t.Helper()
	_, err := client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
}

func waitForNode(t *testing.T, client kubernetes.Interface, name, what string, is func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	poll.Until(t, fmt.Sprintf("node %s %s", name, what), func(ctx context.Context) error {
		var err error
		if node, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !is(node) {
			return fmt.Errorf("Ready is %s, taints are %v", readiness(node), node.Spec.Taints)
		}
		return nil
	})
	return node
}

func isReady(node *corev1.Node) bool { return readiness(node) == corev1.ConditionTrue }

func readiness(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

func addrs(texts ...string) []netip.Addr {
	var parsed []netip.Addr
	for _, text := range texts {
		parsed = append(parsed, netip.MustParseAddr(text))
	}
	return parsed
}
