package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
)

// before returns a time so long before noon.
func before(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func node(name string, edits ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", CreationTimestamp: before(time.Hour), Labels: map[string]string{
			corev1.LabelInstanceTypeStable: "sim.small", corev1.LabelTopologyZone: "sim-1a",
		}},
		Spec: corev1.NodeSpec{ProviderID: "sim://" + name},
	}
	for _, edit := range edits {
		edit(&n)
	}
	return n
}

func tainted(key string, since time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		added := before(since)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, TimeAdded: &added})
	}
}

func conditioned(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: before(7 * time.Minute),
		})
	}
}

func event(kind, namespace, name, uid, reason, message string, ago time.Duration) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name, UID: types.UID(uid)},
		Reason:         reason, Message: message, LastTimestamp: before(ago),
	}
}

func TestNodes(t *testing.T) {
	const uninitialized, shutdown = "node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown"
	for name, test := range map[string]struct {
		node corev1.Node
		want view.Node
	}{
		"as it should be": {
			node("n", conditioned(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "RouteCreated", "")),
			view.Node{State: view.NodeInitialized, Routed: ptr.To(true)},
		},
		"waits, and an event says why": {
			node("n", tainted(uninitialized, 0), tainted(shutdown, 0)),
			view.Node{State: view.NodeUninitialized, Since: noon.Add(-time.Hour), Why: "InstanceNotFound: new"},
		},
		"waits, and nothing says why": {
			node("other", tainted(uninitialized, 0)),
			view.Node{State: view.NodeUninitialized, Since: noon.Add(-time.Hour), Why: "no event says why; is a manager running?"},
		},
		"held, and off": {
			node("n", tainted(shutdown, time.Minute), conditioned("CloudInstanceGone", corev1.ConditionTrue, "DeletionLimit", "3 of 3 are used")),
			view.Node{State: view.NodeHeld, Since: noon.Add(-7 * time.Minute), Why: "DeletionLimit: 3 of 3 are used"},
		},
		"no longer held": {
			node("n", conditioned("CloudInstanceGone", corev1.ConditionFalse, "Found", "")), view.Node{State: view.NodeInitialized},
		},
		"off": {
			node("n", tainted(shutdown, time.Minute)), view.Node{State: view.NodeShutDown, Since: noon.Add(-time.Minute)},
		},
		"out of service": {
			node("n", tainted(shutdown, time.Minute), tainted(corev1.TaintNodeOutOfService, 3*time.Second)),
			view.Node{State: view.NodeOutOfService, Since: noon.Add(-3 * time.Second)},
		},
		"of another provider": {
			node("n", tainted(shutdown, 0), func(n *corev1.Node) { n.Spec.ProviderID = "aws:///z/i-1" }),
			view.Node{State: view.NodeForeign, Why: `the provider ID has the scheme "aws"; the provider's own are ["sim"]`},
		},
		"to be ignored": {
			node("n", func(n *corev1.Node) { n.Annotations = map[string]string{"mooring.dev/ignore": "true"} }),
			view.Node{State: view.NodeForeign, Why: `the node is annotated mooring.dev/ignore: "true"`},
		},
		"registered without a cloud": {
			node("n", func(n *corev1.Node) { n.Spec.ProviderID = "" }), view.Node{State: view.NodeWithoutID},
		},
		"being deleted": {
			node("n", func(n *corev1.Node) {
				n.DeletionTimestamp, n.Finalizers = ptr.To(before(time.Minute)), []string{"a", "b"}
			}),
			view.Node{State: view.NodeDeleting, Since: noon.Add(-time.Minute), Why: "finalizers: a, b"},
		},
		"without a route, and off": {
			node("n", tainted(shutdown, time.Minute), conditioned(corev1.NodeNetworkUnavailable, corev1.ConditionTrue, "NoRouteCreated", "table full")),
			view.Node{State: view.NodeShutDown, Since: noon.Add(-time.Minute), Routed: ptr.To(false), Why: "NoRouteCreated: table full"},
		},
	} {
		got := view.Of(view.Seen{Now: noon, Nodes: []corev1.Node{test.node}, Schemes: []string{"sim"}, Events: []corev1.Event{
			event("Node", "", "n", "uid", "CloudError", "old", time.Hour),
			event("Node", "", "n", "uid", "InstanceNotFound", "new", time.Minute),
			event("Node", "", "n", "its predecessor", "CloudError", "of another node", 0),
			event("Node", "", "n", "uid", "NodeHasDiskPressure", "of the kubelet", 0),
			event("Service", "", "n", "uid", "CloudError", "of something else", 0),
		}}).Nodes[0]
		test.want.Name, test.want.ProviderID, test.want.Type, test.want.Zone = test.node.Name, test.node.Spec.ProviderID, "sim.small", "sim-1a"
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestServices(t *testing.T) {
	ready := service("ready", said("LoadBalancerReady", "True", "Provided", ""), said("metal.mooring.dev/Announced", "False", "NoSession", "no router"))
	ready.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.com"}}
	classed := service("classed")
	classed.Spec.LoadBalancerClass = ptr.To("example.com/other")
	leaving := service("leaving")
	leaving.DeletionTimestamp = ptr.To(before(3 * time.Minute))
	leaving.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
	inner := service("inner")
	inner.Spec.Type = corev1.ServiceTypeClusterIP
	changed := service("was-one")
	changed.Spec.Type, changed.Finalizers = corev1.ServiceTypeClusterIP, leaving.Finalizers
	got := view.Of(view.Seen{
		Now: noon,
		Services: []corev1.Service{
			ready, inner, leaving, classed, changed, service("waits", said("LoadBalancerReady", "False", "Throttled", "quota")),
			service("elsewhere", said("LoadBalancerReady", "Unknown", "ImplementedElsewhere", "")),
		},
		Events: []corev1.Event{event("Service", "shop", "leaving", "uid", "DeleteLoadBalancerFailed", "no rights", time.Minute)},
	}).Services
	want := []view.Service{
		{Name: "classed", State: view.ServiceUntouched, Since: noon.Add(-time.Hour), Class: "example.com/other",
			Why: "no manager has said anything; the class is example.com/other"},
		{Name: "elsewhere", State: view.ServiceElsewhere, Since: noon.Add(-time.Minute), Why: "ImplementedElsewhere"},
		{Name: "leaving", State: view.ServiceWithdrawing, Since: noon.Add(-3 * time.Minute), Why: "DeleteLoadBalancerFailed: no rights"},
		{
			Name: "ready", State: view.ServiceReady, Since: noon.Add(-time.Minute), Addresses: []string{"192.0.2.1", "lb.example.com"},
			Announced: ptr.To(false), NoSession: true, Why: "NoSession: no router",
		},
		{Name: "waits", State: view.ServiceNotReady, Since: noon.Add(-time.Minute), Why: "Throttled: quota"},
		{Name: "was-one", State: view.ServiceWithdrawing},
	}
	for i := range want {
		want[i].Namespace = "shop"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// said is a condition that a manager wrote a minute ago.
func said(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}
}

// service is a Service with a load balancer that is an hour old.
func service(name string, conditions ...metav1.Condition) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}, Status: corev1.ServiceStatus{Conditions: conditions},
	}
}

func TestLeader(t *testing.T) {
	lease := func(holder string, renewed time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(15)), AcquireTime: ptr.To(metav1.NewMicroTime(noon.Add(-time.Hour))),
			RenewTime: ptr.To(metav1.NewMicroTime(noon.Add(-renewed))),
		}}
	}
	for want, given := range map[string]*coordinationv1.Lease{
		"Leader: not known\n\nNodes: not known\n":                      nil,
		"Leader: none, the lease was released\n":                       lease("", time.Second),
		"Leader: a for 1h00m, renewed 2s ago\n":                        lease("a", 2*time.Second),
		"Leader: none, a has not renewed the lease for 16s\n":          lease("a", 16*time.Second),
		"Leader: a·[1m for 1h00m, renewed 15s ago\n\nNodes: not known": lease("a\x1b[1m", 15*time.Second),
	} {
		if got := view.Of(view.Seen{Now: noon, Lease: given}).Text(view.Style{}); !strings.HasPrefix(got, want) {
			t.Errorf("it begins otherwise than %q:\n%s", want, got)
		}
	}
}

const exposition = `
# TYPE leader_election_master_status gauge
leader_election_master_status{name="x"} 1
# TYPE mooring_inventory_instances gauge
mooring_inventory_instances 12
# TYPE mooring_inventory_listing_timestamp_seconds gauge
mooring_inventory_listing_timestamp_seconds 1772366300
# TYPE mooring_inventory_watch_mark_timestamp_seconds gauge
mooring_inventory_watch_mark_timestamp_seconds 1772366390.5
# TYPE mooring_cloud_calls_total counter
mooring_cloud_calls_total{operation="ListRoutes",outcome="ok"} 20
mooring_cloud_calls_total{operation="InstanceMetadata",outcome="error"} 5
# TYPE mooring_cloud_calls_waiting gauge
mooring_cloud_calls_waiting 4
# TYPE mooring_cloud_refusals_total counter
mooring_cloud_refusals_total 9
# TYPE mooring_cloud_rate_limit gauge
mooring_cloud_rate_limit 2.5
# TYPE mooring_route_listed gauge
mooring_route_listed 11
# TYPE mooring_route_missing gauge
mooring_route_missing 1
# TYPE mooring_route_limit gauge
mooring_route_limit 100
# TYPE mooring_service_drift_total counter
mooring_service_drift_total{kind="changed"} 3
mooring_service_drift_total{kind="gone"} 0
# TYPE mooring_service_orphans gauge
mooring_service_orphans{owner="this_cluster"} 1
# TYPE mooring_node_lifecycle_held_nodes gauge
mooring_node_lifecycle_held_nodes{reason="DeletionLimit"} 6
# TYPE mooring_node_lifecycle_deletions_in_window gauge
mooring_node_lifecycle_deletions_in_window 3
# TYPE mooring_node_lifecycle_deletion_limit gauge
mooring_node_lifecycle_deletion_limit 3
`

func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestManager(t *testing.T) {
	seen := view.Seen{
		Now: time.Unix(1772366400, 0), Metrics: families(t, exposition), Interval: 2 * time.Second,
		Before: families(t, strings.Replace(exposition, "} 20", "} 15", 1)),
	}
	got := view.Of(seen).Manager
	want := &view.Manager{
		Leads: ptr.To(true), Instances: ptr.To(12), Observation: "watch", ObservedAt: time.UnixMilli(1772366390500).UTC(),
		CallsPerSecond: ptr.To(2.5), RateLimit: 2.5, Waiting: 4, Refusals: 9,
		RoutesMissing: ptr.To(1), Routes: ptr.To(11), RouteLimit: 100,
		Drift: map[string]int{"changed": 3}, Orphans: map[string]int{"this_cluster": 1}, Held: map[string]int{"DeletionLimit": 6},
		Deletions: 3, DeletionLimit: 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	empty := view.Of(view.Seen{Now: noon, Metrics: map[string]*dto.MetricFamily{}}).Text(view.Style{})
	if !strings.Contains(empty, "no listing and no watch yet") {
		t.Errorf("nothing is known, and this is said:\n%s", empty)
	}
}

func TestStatusText(t *testing.T) {
	seen := view.Seen{
		Now: time.Unix(1772366400, 0), Metrics: families(t, exposition), Unknown: []string{"the lease x"},
		NoLease: true, Services: []corev1.Service{},
		Nodes: []corev1.Node{node("b", conditioned(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "", "")), node("a", func(n *corev1.Node) {
			n.Labels, n.Spec.ProviderID = nil, ""
		})},
	}
	want := `Leader: none, there is no such lease; --lease names another
Cloud: 12 instances by watch, 10s old
Calls: limit 2.5 a second, 0 under way, 4 waiting, 9 refused since the start
Routes: 11 in the cloud of 100 that it takes, 1 missing
Drift: load balancers found 3 changed since the start
Orphans: load balancers of no Service: 1 this_cluster; see mooring orphans
Deletions: 3 of 3 allowed now; held: 6 DeletionLimit

Nodes: 1 initialized, 1 without provider ID
NAME  STATE                PROVIDER ID  TYPE       ZONE    ROUTED
a     without provider ID  -            -          -       -
b     initialized          sim://b      sim.small  sim-1a  yes

Load balancers: none

Not known: the lease x
`
	if diff := cmp.Diff(want, view.Of(seen).Text(view.Style{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wide := `NAME  STATE                FOR  SINCE  PROVIDER ID  TYPE       ZONE    ROUTED  WHY
a     without provider ID  -    -      -            -          -       -       -
b     initialized          -    -      sim://b      sim.small  sim-1a  yes     -
`
	if got := view.Of(seen).Text(view.Style{All: true}); !strings.Contains(got, wide) {
		t.Errorf("all is\n%s\nand lacks\n%s", got, wide)
	}
}
