package node_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

func instanceOf(n *corev1.Node) *cloudprovider.InstanceMetadata {
	return &cloudprovider.InstanceMetadata{
		ProviderID: "plain://" + n.Name, InstanceType: "t", Zone: "z", Region: "r",
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.7.0.1"}},
	}
}

func plain() *plainPlugin {
	return newPlain("plain", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		return instanceOf(n), nil
	})
}

func TestARefusedAddressWriteHoldsNothingElseBack(t *testing.T) {
	const name = "no-status"
	grant := func(resource string) rbacv1.PolicyRule {
		verbs := []string{"get", "list", "watch", "patch", "create"}
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{grant("nodes"), grant("events")}}
	bind(t, role, name)
	m := start(t, options{Cloud: plain(), Account: name})
	join(t, named(name))

	waitInitialized(t, name)
	event := waitForEvent(t, name, "Warning WriteFailed: The node is as the cloud says except for its addresses: writing the addresses")
	for _, part := range []string{"nodes/status", "forbidden", "permissions"} {
		if !strings.Contains(event, part) {
			t.Errorf("the event does not say %q:\n%s", part, event)
		}
	}
	n := get(t, name)
	if n.Spec.ProviderID != "plain://"+name || n.Labels[corev1.LabelTopologyZone] != "z" {
		t.Errorf("the node is %v, want all but its addresses", showing(n))
	}
	if got := m.Metric(t, "mooring_node_failures_total", "reason", "WriteFailed"); got < 1 {
		t.Errorf("%v failures are counted", got)
	}

	role.Rules = append(role.Rules, grant("nodes/status"))
	_, err := admin.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{})
	must.NoError(t, err)
	waitFor(t, name, "has its address", func(n *corev1.Node) error {
		if !slices.Contains(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.7.0.1"}) {
			return fmt.Errorf("addresses %v", n.Status.Addresses)
		}
		return nil
	})
	done := writes(t, m)[name]
	if len(done) < 4 || !slices.Equal(done[:3], []string{"update status 403", "patch status 403", "patch 200"}) || done[len(done)-1] != "patch status 200" ||
		slices.ContainsFunc(done[3:len(done)-1], func(write string) bool { return write != "patch status 403" }) {
		t.Errorf("writes %v, want the rest after the first refusals, and the status in the end", done)
	}
}

// Plugins have returned an address twice (Linode, Yandex), and the API server refuses such a status.
func TestAnAddressThatComesTwiceIsWrittenOnce(t *testing.T) {
	const name = "twice"
	first := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.7.0.1"}
	second := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.7.0.2"}
	m := start(t, options{Pool: name, Cloud: newPlain("plain", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		return &cloudprovider.InstanceMetadata{ProviderID: "plain://" + n.Name, NodeAddresses: []corev1.NodeAddress{second, first, second}}, nil
	})})
	join(t, inPool(name, named(name)))
	n := waitInitialized(t, name)
	if len(n.Status.Addresses) < 2 || !slices.Equal(n.Status.Addresses[:2], []corev1.NodeAddress{second, first}) {
		t.Errorf("addresses %v, want each once and in the cloud's order", n.Status.Addresses)
	}
	if done := writes(t, m)[name]; !slices.Equal(done, []string{"update status 200", "update 200"}) {
		t.Errorf("writes %v", done)
	}
}

// bind creates a role and a ServiceAccount that has it, until the test ends.
func bind(t *testing.T, role *rbacv1.ClusterRole, account string) {
	t.Helper()
	roles, bindings := admin.RbacV1().ClusterRoles(), admin.RbacV1().ClusterRoleBindings()
	created, err := roles.Create(t.Context(), role, metav1.CreateOptions{})
	must.NoError(t, err)
	role.ResourceVersion = created.ResourceVersion
	_, err = bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: account}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
		defer cancel()
		if err := bindings.Delete(ctx, role.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := roles.Delete(ctx, role.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// policy refuses nodes with a label while it is there.
const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: keep-taint}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [nodes]}]
  validations:
  - expression: "!('frozen' in object.metadata.labels) || object.spec.taints.exists(t, t.key.endsWith('/uninitialized'))"
    message: frozen nodes keep their taints
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: keep-taint}
spec: {policyName: keep-taint, validationActions: [Deny]}
`

// A refusal by admission has the same code as a patch that came too late. The node gets an event at once, it is not retried silently.
func TestARefusalByAdmissionIsToldToTheNode(t *testing.T) {
	must.NoError(t, cluster.Apply(t.Context(), []byte(policy)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
		defer cancel()
		policies := admin.AdmissionregistrationV1()
		if err := policies.ValidatingAdmissionPolicyBindings().Delete(ctx, "keep-taint", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := policies.ValidatingAdmissionPolicies().Delete(ctx, "keep-taint", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	const name = "frozen"
	frozen := nodeagent.Options{Name: name, Labels: map[string]string{"frozen": ""}}
	join(t, frozen)
	poll.Until(t, "the policy is in force", func(ctx context.Context) error {
		n, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Spec.Taints = nil
		if _, err = admin.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return fmt.Errorf("a write that it forbids is allowed")
		}
		return nil
	})
	m := start(t, options{Cloud: plain()})
	event := waitForEvent(t, name, "Warning WriteFailed: Could not initialize the node: writing the labels and taints")
	if !strings.Contains(event, "admission policies and webhooks") || strings.Contains(event, "permissions") {
		t.Errorf("the event does not say what to look at:\n%s", event)
	}
	if first := writes(t, m)[name]; !slices.Equal(first[:3], []string{"update status 200", "update 422", "patch 422"}) {
		t.Errorf("writes %v", first)
	}
	change(t, name, func(n *corev1.Node) { delete(n.Labels, "frozen") })
	waitInitialized(t, name)
}

// meddler lets a test do something after a write was planned and before it arrives. It acts once for each node.
type meddler struct {
	next   http.RoundTripper
	meddle func(nodeName string, status bool)

	mu   sync.Mutex
	done map[string]bool
}

func meddling(meddle func(nodeName string, status bool)) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return &meddler{next: next, meddle: meddle, done: map[string]bool{}}
	}
}

func (m *meddler) RoundTrip(request *http.Request) (*http.Response, error) {
	path, found := strings.CutPrefix(request.URL.Path, "/api/v1/nodes/")
	if found && (request.Method == http.MethodPatch || request.Method == http.MethodPut) && m.first(path) {
		name, subresource, _ := strings.Cut(path, "/")
		m.meddle(name, subresource == "status")
	}
	return m.next.RoundTrip(request)
}

func (m *meddler) first(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done[path] {
		return false
	}
	m.done[path] = true
	return true
}

func TestAWriterThatComesBetweenLosesNothing(t *testing.T) {
	first := corev1.Taint{Key: "example.com/first", Effect: corev1.TaintEffectNoSchedule}
	m := start(t, options{Cloud: plain(), Transport: meddling(func(name string, status bool) {
		if status {
			return
		}
		change(t, name, func(n *corev1.Node) {
			n.Spec.Taints = append([]corev1.Taint{first}, n.Spec.Taints...) // ours is at another place now
			n.Labels[corev1.LabelTopologyZone] = "theirs"
			n.Labels["theirs"] = "1"
		})
	})})
	const name = "meddled"
	join(t, named(name))
	n := waitInitialized(t, name)
	if !slices.Contains(n.Spec.Taints, first) || n.Labels["theirs"] != "1" || n.Labels[corev1.LabelTopologyZone] != "z" {
		t.Errorf("the node is %v, want the other writer's taint and label, and the cloud's zone", showing(n))
	}
	waitForEvent(t, name, "Normal Synced")
	if events := eventsOf(t, name); len(events) != 1 {
		t.Errorf("events %q, want none of the conflict", events)
	}
	// What came too late is tried again until the watch has the other writer's change, with growing pauses.
	want := regexp.MustCompile("^update status 200(, update 409, patch 422){1,6}, update 200$")
	if done := strings.Join(writes(t, m)[name], ", "); !want.MatchString(done) {
		t.Errorf("writes %s, want the late ones and one more", done)
	}
}

// What changes between is nothing to us, as with the heartbeats of a kubelet: the patch takes the place of the update at once.
func TestAHeartbeatBetweenCostsAPatch(t *testing.T) {
	for name, test := range map[string]struct {
		patches bool
		want    []string
	}{
		"beaten-whole":   {false, []string{"update status 409", "patch status 200", "patch 200"}},
		"beaten-trimmed": {true, []string{"patch status 200", "patch 200"}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			m := start(t, options{Pool: name, Patches: test.patches, Transport: meddling(func(name string, status bool) {
				if status {
					change(t, name, func(n *corev1.Node) { n.Annotations = map[string]string{"heartbeat": "1"} })
				}
			}), Cloud: newPlain("plain", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
				asked++
				return instanceOf(n), nil
			})})
			join(t, inPool(name, named(name)))
			if n := waitInitialized(t, name); n.Annotations["heartbeat"] != "1" || n.Status.Addresses[0] != instanceOf(n).NodeAddresses[0] {
				t.Errorf("the node is %v, want the addresses, and the annotation of the other writer", showing(n))
			}
			if done := writes(t, m)[name]; !slices.Equal(done, test.want) || asked != 1 {
				t.Errorf("writes %v, %d questions to the cloud", done, asked)
			}
		})
	}
}

func TestManyWritersLoseNothing(t *testing.T) {
	const nodes, taints = 20, 5
	var joining []nodeagent.Options
	for i := range nodes {
		joining = append(joining, named(fmt.Sprintf("contended-%d", i)))
	}
	start(t, options{Cloud: plain()})
	var writing sync.WaitGroup
	for i := range taints {
		writing.Go(func() {
			for _, o := range joining {
				change(t, o.Name, func(n *corev1.Node) {
					added := corev1.Taint{Key: fmt.Sprintf("example.com/%d", i), Effect: corev1.TaintEffectNoSchedule}
					n.Spec.Taints = append([]corev1.Taint{added}, n.Spec.Taints...)
					n.Labels[fmt.Sprintf("label-%d", i)] = "1"
				})
			}
		})
	}
	join(t, joining...)
	writing.Wait()
	for _, o := range joining {
		n := waitInitialized(t, o.Name)
		for i := range taints {
			isTheirs := func(taint corev1.Taint) bool { return taint.Key == fmt.Sprintf("example.com/%d", i) }
			if !slices.ContainsFunc(n.Spec.Taints, isTheirs) || n.Labels[fmt.Sprintf("label-%d", i)] != "1" {
				t.Errorf("%s lost what was written by writer %d", o.Name, i)
			}
		}
	}
}

func TestANodeThatIsReplacedInFlightIsNotMistaken(t *testing.T) {
	const name = "replaced"
	recreated := false
	m := start(t, options{Cloud: plain(), Transport: meddling(func(_ string, status bool) {
		if status || recreated {
			return
		}
		recreated = true
		must.NoError(t, admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
		_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"generation": "2"}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{
				{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
			}},
		}, metav1.CreateOptions{})
		must.NoError(t, err)
	})})
	join(t, named(name))
	waitFor(t, name, "is the second one, initialized", func(n *corev1.Node) error {
		if n.Labels["generation"] != "2" || ownership.Uninitialized(n) {
			return fmt.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
		}
		return nil
	})
	if n := get(t, name); len(n.Status.Addresses) != 1 || n.Spec.ProviderID != "plain://"+name {
		t.Errorf("the second node is %v, want all of its own", showing(n))
	}
	// What is refused is tried again until the watch has the second node, with growing pauses. An update that conflicts becomes a patch, which has the UID.
	var accepted []string
	refused, done := 0, writes(t, m)[name]
	for _, write := range done {
		switch {
		case strings.HasSuffix(write, " 200"):
			accepted = append(accepted, strings.TrimPrefix(strings.TrimPrefix(write, "update "), "patch "))
		case write == "patch 422" && len(accepted) == 1:
			refused++
		case !strings.HasSuffix(write, " 409"):
			t.Errorf("writes %v, want no %q", done, write)
		}
	}
	if !slices.Equal(accepted, []string{"status 200", "status 200", "200"}) || refused == 0 || len(done) > 11 {
		t.Errorf("writes %v, want those for the node that is gone refused", done)
	}
}

func TestANodeThatIsDeletedInFlightIsNoFailure(t *testing.T) {
	const name = "deleted"
	m := start(t, options{Cloud: plain(), Transport: meddling(func(_ string, status bool) {
		if !status {
			must.NoError(t, admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
	})})
	join(t, named(name))
	poll.Until(t, "the write to a deleted node is refused", func(context.Context) error {
		if done := writes(t, m)[name]; len(done) < 3 || !slices.Equal(done[:3], []string{"update status 200", "update 404", "patch 404"}) {
			return fmt.Errorf("writes %v", done)
		}
		return nil
	})
	m.Stop()
	if events, failed := eventsOf(t, name), m.Metric(t, "mooring_node_failures_total"); len(events) > 0 || failed > 0 {
		t.Errorf("events %q and %v failures, want none", events, failed)
	}
}

// 1,000 nodes join at once. They cost the cloud pages of a few listings, and the API server two writes each. This test is the
// last one because every later one would have to read its part of the audit log.
func TestAMassJoinCostsPagesNotNodes(t *testing.T) {
	const nodes, pageSize = 1000, 250
	simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(nodes), Knobs: api.Knobs{PageSize: pageSize}})
	var joining []nodeagent.Options
	for i := 1; i <= nodes; i++ {
		joining = append(joining, named(cloudsim.DefaultInstance(i).Name))
	}
	join(t, joining...) // all are there when the manager starts, as after an outage of the manager
	simulated.Service.ResetCounts()
	m := start(t, options{Cloud: provider})
	waitAllInitialized(t, nodes)

	counts := simulated.Service.Counts()
	pages := counts.Received(api.OpListInstances)
	listings := m.Metric(t, "mooring_inventory_listings_total")
	t.Logf("%d nodes: %v listings, %d pages", nodes, listings, pages)
	if pages != int64(listings)*nodes/pageSize {
		t.Errorf("%d pages in %v listings of %d instances", pages, listings, nodes)
	}
	if calls := counts.Received(); calls != pages {
		t.Errorf("%d calls of the cloud, %d of them pages of listings; want pages only", calls, pages)
	}
	// One for the waiting nodes, one for the first refresh, and one for each minute that a slow machine takes.
	if listings > 4 {
		t.Errorf("%v listings, want no more than 4 for any number of nodes", listings)
	}
	for name, done := range writes(t, m) {
		if !slices.Equal(done, []string{"update status 200", "update 200"}) {
			t.Errorf("%s was written %v, want its addresses and then the rest", name, done)
		}
	}
	if written := len(writes(t, m)); written != nodes {
		t.Errorf("%d nodes were written, want %d", written, nodes)
	}
}
