package orphans_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/orphans"
	"github.com/mooring-ccm/mooring/provider"
)

func TestBalancers(t *testing.T) {
	listed := []provider.LoadBalancer{
		{Name: "ours", ServiceUID: "gone", ClusterUID: "me"},
		{Name: "in-use", ServiceUID: "web", ClusterUID: "me"},
		{Name: "in-use-before-clusters-had-uids", ServiceUID: "web-2"},
		{Name: "whose", ServiceUID: "gone"},
		{Name: "other", ServiceUID: "gone", ClusterUID: "another"},
		{Name: "of-no-service", ClusterUID: "me"},
	}
	live := map[types.UID]bool{"web": true, "web-2": true}
	for cluster, want := range map[types.UID]map[string]bool{
		"me": {"ours": true, "whose": false},
		"":   {"whose": false},
	} {
		got := map[string]bool{}
		for _, one := range orphans.Balancers(listed, live, cluster) {
			got[one.Name] = one.Proven
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("for the cluster %q (-want +got):\n%s", cluster, diff)
		}
	}
}

func TestAsService(t *testing.T) {
	ports := []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}
	got := orphans.Balancer{LoadBalancer: provider.LoadBalancer{
		Service: types.NamespacedName{Namespace: "shop", Name: "web"}, ServiceUID: "gone", Ports: ports,
	}}.AsService()
	want := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "gone"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRoutes(t *testing.T) {
	nodes := []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.2.0/24", "fd00:2::/64"}}},
	}
	var listed []*cloudprovider.Route
	for destination, target := range map[string]types.NodeName{
		"10.244.1.0/24": "a",     // a node's
		"10.244.2.0/25": "b-alt", // to pods of a node that its cloud may know by another name
		"10.244.9.0/24": "gone",
		"10.0.0.0/8":    "gone", // more than the cluster's range
		"192.0.2.0/24":  "gone", // elsewhere
		"fd00:9::/64":   "",     // a black hole
		"nonsense":      "gone",
	} {
		listed = append(listed, &cloudprovider.Route{DestinationCIDR: destination, TargetNode: target, Blackhole: target == ""})
	}
	listed = append(listed, nil)
	shown := func(ranges ...netip.Prefix) map[string]bool {
		got := map[string]bool{}
		for _, one := range orphans.Routes(listed, nodes, ranges) {
			got[one.DestinationCIDR] = one.Proven
		}
		return got
	}
	want := map[string]bool{
		"10.244.2.0/25": false, "10.244.9.0/24": true, "10.0.0.0/8": false, "192.0.2.0/24": false, "fd00:9::/64": true, "nonsense": false,
	}
	if diff := cmp.Diff(want, shown(netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/16"))); diff != "" {
		t.Errorf("with the cluster's ranges (-want +got):\n%s", diff)
	}
	nodes = nodes[1:] // now no route leads to a node: is this another cluster?
	for destination, proven := range shown(netip.MustParsePrefix("10.244.0.0/16")) {
		if proven {
			t.Errorf("%s is proven in a cluster to which no route leads", destination)
		}
	}
	for destination, proven := range shown() {
		if proven {
			t.Errorf("%s is proven by no range at all", destination)
		}
	}
}
