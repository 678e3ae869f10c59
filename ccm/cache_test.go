package ccm_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	_ "github.com/mooring-ccm/mooring/providers/sim" // the plugin of these tests
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// harbor is a cluster with a simulated cloud, and a manager with all controllers that looks at everything every second.
type harbor struct {
	cluster *harness.Cluster
	client  kubernetes.Interface
	cloud   *simtest.Cloud
	args    []string
	// since is how far the API server was when the harbor was made.
	since harness.Mark
}

func newHarbor(t *testing.T, instances int) *harbor {
	t.Helper()
	cluster, kubeconfig := controlPlane(t)
	return newHarborOn(t, cluster, kubeconfig, instances)
}

// newHarborOn is newHarbor on a control plane that the test may stop.
func newHarborOn(t *testing.T, cluster *localcluster.Cluster, kubeconfig string, instances int) *harbor {
	t.Helper()
	r := newReplicas(t, cluster, kubeconfig) // no Lease is held
	h := &harbor{cluster: harnesstest.Of(t, cluster), client: r.client, cloud: simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(instances)})}
	h.args = []string{
		"--cloud-provider=sim", "--cloud-config=" + h.cloud.ConfigFile, "--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--cluster-cidr=10.200.0.0/16", "--allocate-node-cidrs", "--node-status-update-frequency=1s", "--node-monitor-period=200ms",
		"--route-reconciliation-period=1s", "--node-deletion-min-age=0s", "--node-deletion-min-denial-time=0s",
	}
	var err error
	if h.since, err = h.cluster.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// replica starts a manager, and returns it with its secure port.
func (h *harbor) replica(t *testing.T) (program, endpoint) {
	t.Helper()
	port := localclustertest.FreePort(t)
	return start(t, append(h.args, "--secure-port="+port)...), newEndpoint(t, port)
}

// requests returns what the managers have asked of the API server.
func (h *harbor) requests(t *testing.T) []auditv1.Event {
	t.Helper()
	requests, err := h.cluster.Requests(t.Context(), harness.Mooring.User(), h.since)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(requests, func(event auditv1.Event) bool { return event.ObjectRef == nil })
}

// join creates the nodes of instances, as kubelets do, with what they report when they have run for a while.
func (h *harbor) join(t *testing.T, count int) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := 1; i <= count; i++ {
		name := cloudsim.DefaultInstance(i).Name
		t.Cleanup(func() { _ = h.client.CoreV1().Nodes().Delete(cleanUp(t), name, metav1.DeleteOptions{}) })
		group.Go(func() error {
			agent, err := nodeagent.New(h.cluster.AdminConfig(), nodeagent.Options{Name: name})
			if err != nil {
				return err
			}
			if err := agent.Register(t.Context()); err != nil {
				return err
			}
			patch := fmt.Sprintf(`{"spec": {"podCIDR": "10.200.%d.0/24", "podCIDRs": ["10.200.%d.0/24"]}}`, i%250, i%250)
			_, err = h.client.CoreV1().Nodes().Patch(t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// report changes the status of a node as its kubelet would.
func (h *harbor) report(t *testing.T, name string, change func(*corev1.NodeStatus)) {
	t.Helper()
	poll.Until(t, "the kubelet of "+name+" reports", func(ctx context.Context) error {
		node, err := h.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&node.Status)
		_, err = h.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{FieldManager: "kubelet"})
		return err
	})
}

// await waits until a node is as check says, and returns it.
func (h *harbor) await(t *testing.T, name, what string, check func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	poll.Until(t, "node "+name+" "+what, func(ctx context.Context) (err error) {
		if node, err = h.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !check(node) {
			return fmt.Errorf("it has labels %v, taints %v, conditions %v", node.Labels, node.Spec.Taints, node.Status.Conditions)
		}
		return nil
	})
	return node
}

func isRouted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionFalse
	})
}

func isComplete(node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Spec.Taints, isUninitialized) && isRouted(node)
}

func isShutDown(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintNodeShutdown })
}

// untouched is the part of a node that the manager's cache does not hold, and that only its owner may change.
type untouched struct {
	Images              []corev1.ContainerImage
	InUse               []corev1.UniqueVolumeName
	Attached            []corev1.AttachedVolume
	Handlers            []corev1.NodeRuntimeHandler
	Managers            []string
	LastApplied, Theirs string
}

func untouchedOf(node *corev1.Node) untouched {
	u := untouched{
		Images: node.Status.Images, InUse: node.Status.VolumesInUse, Attached: node.Status.VolumesAttached, Handlers: node.Status.RuntimeHandlers,
		LastApplied: node.Annotations[corev1.LastAppliedConfigAnnotation], Theirs: node.Annotations["example.com/theirs"],
	}
	for _, entry := range node.ManagedFields {
		if entry.Manager == "kubelet" || entry.Manager == "other-manager" {
			u.Managers = append(u.Managers, entry.Manager+" "+entry.Subresource)
		}
	}
	slices.Sort(u.Managers)
	return u
}

// TestWhatTheCacheLeavesOutStaysOnTheServer leads a node and a Service through every write that there is.
func TestWhatTheCacheLeavesOutStaysOnTheServer(t *testing.T) {
	h := newHarbor(t, 2)
	h.join(t, 2)
	const name = "node-001"
	theirs := fmt.Sprintf(`{"metadata": {"annotations": {%q: "{}", "example.com/theirs": "1"}}}`, corev1.LastAppliedConfigAnnotation)
	_, err := h.client.CoreV1().Nodes().Patch(t.Context(), name, "application/merge-patch+json", []byte(theirs), metav1.PatchOptions{FieldManager: "other-manager"})
	if err != nil {
		t.Fatal(err)
	}
	h.report(t, name, func(status *corev1.NodeStatus) {
		status.Images = []corev1.ContainerImage{{Names: []string{"registry.example.com/pause:1"}, SizeBytes: 7}}
		status.VolumesInUse = []corev1.UniqueVolumeName{"example.com/v"}
		status.VolumesAttached = []corev1.AttachedVolume{{Name: "example.com/v", DevicePath: "/dev/v"}}
		status.RuntimeHandlers = []corev1.NodeRuntimeHandler{{Name: "runc"}}
	})
	balanced := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "balanced", Namespace: "default", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	services := h.client.CoreV1().Services("default")
	if _, err := services.Create(t.Context(), balanced, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before, err := h.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.replica(t)

	h.await(t, name, "is initialized and has its route", isComplete)
	h.cloud.Change(t, name, func(spec *api.InstanceSpec) { spec.MachineType, spec.Power = cloudsim.TypeLarge, api.PowerOff })
	h.await(t, name, "is refreshed", func(n *corev1.Node) bool { return n.Labels[corev1.LabelInstanceTypeStable] == cloudsim.TypeLarge })
	ready := func(status corev1.ConditionStatus) {
		h.report(t, name, func(s *corev1.NodeStatus) {
			for i := range s.Conditions {
				if s.Conditions[i].Type == corev1.NodeReady {
					s.Conditions[i].Status = status
				}
			}
		})
	}
	ready(corev1.ConditionUnknown)
	h.await(t, name, "has the shutdown taint", isShutDown)
	ready(corev1.ConditionTrue)
	after := h.await(t, name, "has lost it", func(n *corev1.Node) bool { return !isShutDown(n) })
	if diff := cmp.Diff(untouchedOf(before), untouchedOf(after)); diff != "" {
		t.Errorf("what the manager does not see of the node (-before +after):\n%s", diff)
	}

	poll.Until(t, "the Service has an address, and keeps what kubectl has noted", func(ctx context.Context) error {
		got, err := services.Get(ctx, "balanced", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(got.Status.LoadBalancer.Ingress) == 0 || got.Annotations[corev1.LastAppliedConfigAnnotation] != "{}" || len(got.ManagedFields) < 2 {
			return fmt.Errorf("it has %v, annotations %v and %d managers", got.Status.LoadBalancer, got.Annotations, len(got.ManagedFields))
		}
		return nil
	})
	if err := services.Delete(t.Context(), "balanced", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the Service is gone", func(ctx context.Context) error {
		if _, err := services.Get(ctx, "balanced", metav1.GetOptions{}); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// counter returns the value of a metric without labels.
func counter(t *testing.T, secure endpoint, token, name string) float64 {
	t.Helper()
	code, body, err := secure.get(t, "/metrics", token)
	if err != nil || code != http.StatusOK {
		return 0
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(body)
	if found == nil {
		return 0
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatalf("%s %s: %v", name, found[1], err)
	}
	return value
}

// awaitRefreshes waits until so many refreshes of all nodes have begun and ended from now on.
func awaitRefreshes(t *testing.T, secure endpoint, token string, count float64) {
	t.Helper()
	const refreshes = "mooring_node_refresh_duration_seconds_count"
	before := counter(t, secure, token, refreshes)
	poll.Until(t, "all nodes are refreshed", func(context.Context) error {
		if done := counter(t, secure, token, refreshes) - before; done <= count { // the first may have begun before
			return fmt.Errorf("%v times", done)
		}
		return nil
	})
}

// writesBy returns how many writes were made in the name of a controller.
func (h *harbor) writesBy(t *testing.T, fieldManager string) int {
	t.Helper()
	return len(slices.DeleteFunc(h.requests(t), func(request auditv1.Event) bool {
		return !localcluster.IsWrite(request) || !strings.Contains(request.RequestURI, "fieldManager="+fieldManager)
	}))
}

// eachNodeHasEvent fails while a node lacks the event of its initialization. Events outlive the nodes of other tests.
func (h *harbor) eachNodeHasEvent(ctx context.Context) error {
	nodes, err := h.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	events, err := h.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=Synced"})
	if err != nil {
		return err
	}
	lacking := slices.DeleteFunc(nodes.Items, func(node corev1.Node) bool {
		return slices.ContainsFunc(events.Items, func(event corev1.Event) bool { return event.InvolvedObject.UID == node.UID })
	})
	if len(lacking) > 0 {
		return fmt.Errorf("%d nodes have none", len(lacking))
	}
	return nil
}

// besidesLeases returns the writes among requests that are not renewals of Leases, nor the event that tells of a new leader.
func besidesLeases(requests []auditv1.Event) (writes []string) {
	for _, request := range requests {
		object := request.ObjectRef
		if localcluster.IsWrite(request) && object.Resource != "leases" && object.Resource != "events" &&
			object.APIGroup != "authentication.k8s.io" && object.APIGroup != "authorization.k8s.io" {
			writes = append(writes, strings.Join([]string{request.Verb, object.Resource, object.Subresource, object.Name}, " "))
		}
	}
	return writes
}

// TestAnIdleManagerOnlyRenewsItsLease counts what a manager of many nodes writes while nothing changes, what its successor
// writes, and what they watch.
func TestAnIdleManagerOnlyRenewsItsLease(t *testing.T) {
	const nodes = 100
	h := newHarbor(t, nodes)
	h.join(t, nodes)
	token, _ := tokens(t, h.client)
	leader, secure := h.replica(t)
	poll.Until(t, "all nodes are initialized and routed", func(ctx context.Context) error {
		list, err := h.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		incomplete := slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return isComplete(&n) })
		if len(incomplete) > 0 {
			return fmt.Errorf("%d are not", len(incomplete))
		}
		return nil
	})
	for manager, most := range map[string]int{"cloud-node-controller": 2, "cloud-node-lifecycle-controller": 0, "node-route-controller": 1} {
		if writes := h.writesBy(t, manager); writes > most*nodes {
			t.Errorf("%d writes of the %s to make %d nodes ready, want at most %d for each", writes, manager, nodes, most)
		}
	}
	poll.Until(t, "each node has the event of its initialization", h.eachNodeHasEvent)
	awaitRefreshes(t, secure, token, 1)
	idle := len(h.requests(t))
	// On a busy machine events of the join trail behind it; an idle manager that goes on writing some fails at the deadline.
	poll.Until(t, "two refreshes pass without an event", func(context.Context) error {
		began := len(h.requests(t))
		awaitRefreshes(t, secure, token, 2)
		if slices.ContainsFunc(h.requests(t)[began:], func(request auditv1.Event) bool { return request.ObjectRef.Resource == "events" }) {
			return errors.New("an idle manager wrote events")
		}
		return nil
	})
	if writes := besidesLeases(h.requests(t)[idle:]); len(writes) > 0 {
		t.Errorf("an idle manager wrote %q", writes)
	}

	standby, takesOver := h.replica(t)
	takesOver.await(t, "/readyz", http.StatusOK)
	leader.signal(t, syscall.SIGTERM)
	if code := leader.wait(t); code != 0 {
		t.Errorf("the leader ended with %d", code)
	}
	taken := len(h.requests(t))
	awaitRefreshes(t, takesOver, token, 2)
	if writes := besidesLeases(h.requests(t)[taken:]); len(writes) > 0 {
		t.Errorf("the new leader wrote %q", writes)
	}
	standby.signal(t, syscall.SIGTERM)
	standby.wait(t)

	want := []string{"configmaps", "leases", "nodes", "services"}
	if diff := cmp.Diff(want, watched(h.requests(t))); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(h.requests(t), func(request auditv1.Event) bool {
		return request.ObjectRef.Resource == "nodes" && strings.Contains(request.RequestURI, "sendInitialEvents=true")
	}) {
		t.Error("the nodes are listed, not streamed: a list is in memory as a whole, twice")
	}
}

// watched returns the kinds of objects that were watched.
func watched(requests []auditv1.Event) []string {
	var kinds []string
	for _, request := range requests {
		if request.Verb == "watch" {
			kinds = append(kinds, request.ObjectRef.Resource)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
