package nodeagent

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"pgregory.net/rapid"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestReportAddresses(t *testing.T) {
	const annotation = "alpha.kubernetes.io/provided-node-ip"
	host := corev1.NodeAddress{Type: corev1.NodeHostName, Address: "a"}
	tests := map[string]struct {
		nodeIPs    []string
		existing   []corev1.NodeAddress
		annotation string
		want       []corev1.NodeAddress
	}{
		"no node IP":  {want: []corev1.NodeAddress{host}},
		"IPv4":        {nodeIPs: []string{"10.0.0.1"}, annotation: "10.0.0.1", want: []corev1.NodeAddress{internal("10.0.0.1"), host}},
		"IPv6":        {nodeIPs: []string{"fd00::1"}, annotation: "fd00::1", want: []corev1.NodeAddress{internal("fd00::1"), host}},
		"IPv4 mapped": {nodeIPs: []string{"::ffff:10.0.0.1"}, annotation: "10.0.0.1", want: []corev1.NodeAddress{internal("10.0.0.1"), host}},
		"dual stack, IPv6 first": {
			nodeIPs: []string{"fd00::1", "10.0.0.1"}, annotation: "fd00::1,10.0.0.1",
			want: []corev1.NodeAddress{internal("fd00::1"), internal("10.0.0.1"), host},
		},
		"the cloud's addresses stay": {
			nodeIPs: []string{"10.0.0.1"}, annotation: "10.0.0.1",
			existing: []corev1.NodeAddress{internal("10.9.9.9")}, want: []corev1.NodeAddress{internal("10.9.9.9")},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Addresses: test.existing}}
			node.Annotations = map[string]string{annotation: "of an earlier start"}
			options := Options{Hostname: "a"}
			for _, text := range test.nodeIPs {
				options.NodeIPs = append(options.NodeIPs, netip.MustParseAddr(text))
			}
			reportAddresses(node, options)
			if got := node.Annotations[annotation]; got != test.annotation {
				t.Errorf("annotation %q, want %q", got, test.annotation)
			}
			if diff := cmp.Diff(test.want, node.Status.Addresses); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func internal(address string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address}
}

func TestRegistration(t *testing.T) {
	options, err := Options{
		Name: "a", Hostname: "host-a", ProviderID: "sim://7",
		Labels: map[string]string{"rack": "r1", corev1.LabelHostname: "overridden"},
		Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoExecute}},
	}.complete()
	if err != nil {
		t.Fatal(err)
	}
	node := registration(options, testTime)
	wantTaints := []corev1.Taint{
		{Key: "gpu", Effect: corev1.TaintEffectNoExecute},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
	}
	if diff := cmp.Diff(wantTaints, node.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if node.Labels["rack"] != "r1" || node.Labels[corev1.LabelHostname] != "overridden" || node.Labels[corev1.LabelOSStable] == "" {
		t.Errorf("labels %v", node.Labels)
	}
	if node.Spec.ProviderID != "sim://7" {
		t.Errorf("provider ID %q", node.Spec.ProviderID)
	}
	ready := node.Status.Conditions[len(node.Status.Conditions)-1]
	if ready.Type != corev1.NodeReady || ready.Status != corev1.ConditionFalse {
		t.Errorf("a node registers with Ready = False as its last condition, got %v", ready)
	}
}

// TestReportIsAFixedPoint: a node that was reported needs no other report, only heartbeats; and its conditions keep the
// time of their last transition.
func TestReportIsAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		options, err := Options{Name: rapid.StringMatching(`[a-z]{1,10}`).Draw(t, "name"), NodeIPs: drawNodeIPs(t)}.complete()
		if err != nil {
			t.Fatal(err)
		}
		node := registration(options, testTime)
		if rapid.Bool().Draw(t, "initialized") {
			node.Status.Addresses = []corev1.NodeAddress{internal("192.0.2.1")}
		}
		first := report(node, options, readyCondition(true), testTime.Add(time.Second))
		if !differs(node, first) {
			t.Fatal("becoming ready is not a difference")
		}
		second := report(first, options, readyCondition(true), testTime.Add(time.Minute))
		if differs(first, second) {
			t.Fatalf("a second report differs from the first:\n%s", cmp.Diff(first, second))
		}
		for i, condition := range second.Status.Conditions {
			if !condition.LastHeartbeatTime.Time.Equal(testTime.Add(time.Minute)) {
				t.Fatalf("%s: heartbeat at %s", condition.Type, condition.LastHeartbeatTime)
			}
			if condition.LastTransitionTime != first.Status.Conditions[i].LastTransitionTime {
				t.Fatalf("%s: a transition at %s without a change", condition.Type, condition.LastTransitionTime)
			}
		}
	})
}

func drawNodeIPs(t *rapid.T) []netip.Addr {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	return rapid.SampledFrom([][]netip.Addr{nil, {v4}, {v6}, {v4, v6}, {v6, v4}}).Draw(t, "node IPs")
}

// TestNodeInOneWrite holds Node to what an agent registers and reports.
func TestNodeInOneWrite(t *testing.T) {
	node := Node(Options{Name: "one", Labels: map[string]string{"a": "b"}}, func(node *corev1.Node) { node.Spec.PodCIDR = "10.0.0.0/24" })
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if !ready || len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != cloudproviderapi.TaintExternalCloudProvider ||
		node.Labels["a"] != "b" || node.Labels[corev1.LabelHostname] != "one" || node.Spec.PodCIDR != "10.0.0.0/24" {
		t.Errorf("%+v", node)
	}
}
