package autoscaler_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
	"github.com/mooring-ccm/mooring/providers/sim"
)

// sizes returns what is wrong with the target sizes of a round.
func sizes(want map[string]int) func(*round) error {
	return func(r *round) error {
		for id, size := range want {
			if r.groups[id] == nil || r.targets[id] != size {
				return fmt.Errorf("the groups are %v and their sizes %v, not %v", r.groups, r.targets, want)
			}
		}
		if len(r.groups) != len(want) {
			return fmt.Errorf("the groups are %v", r.groups)
		}
		return nil
	}
}

// TestCircle adds nodes when pods need them, and removes nodes that are no longer needed. A removed node has left every load balancer before its
// instance is deleted. All other nodes stay as they are.
func TestCircle(t *testing.T) {
	f := newFixture(t)
	f.register(t, "node-001")
	f.balancer(t, "web")
	first := f.round("both groups are empty", sizes(map[string]int{small: 0, large: 0}))
	if group := first.groups[small]; group.GetMinSize() != 1 || group.GetMaxSize() != 4 || group.GetDebug() == "" {
		t.Errorf("the group is %v", group)
	}
	if template := first.templates[small]; template == nil || template.Status.Allocatable.Cpu().Value() < 1 || template.Labels["sim.mooring.dev/node-group"] != small {
		t.Errorf("the template is %v", template)
	}
	f.grow(small, 3)
	f.round("the size is raised at once", sizes(map[string]int{small: 3, large: 0}))
	names := f.join(t, small, 3)
	f.awaitTargets(t, append(names, "node-001")...)
	f.round("all nodes have a group, but for the one of none", func(*round) error {
		for _, name := range append(slices.Clone(names), "node-001") {
			node, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			must.NoError(t, err)
			want := small
			if name == "node-001" {
				want = ""
			}
			if got, err := f.nodeGroupForNode(t.Context(), node); got != want || err != nil {
				return fmt.Errorf("%s is of the group %q: %v", name, got, err)
			}
		}
		return nil
	})
	before := f.witness(t, names[1], names[2], "node-001")

	doomed, err := admin.CoreV1().Nodes().Get(t.Context(), names[0], metav1.GetOptions{})
	must.NoError(t, err)
	var mu sync.Mutex
	var atDeletion []string
	f.faults.set(false, func(string) {
		mu.Lock()
		defer mu.Unlock()
		atDeletion, err = f.targets(context.WithoutCancel(t.Context()))
	})
	f.shrink(names[0])
	f.round("the size is lowered at once", sizes(map[string]int{small: 2, large: 0}))
	f.awaitGone(t, small, names[0])
	mu.Lock()
	defer mu.Unlock()
	if err != nil || slices.Contains(atDeletion, doomed.Spec.ProviderID) || len(atDeletion) == 0 {
		t.Errorf("when %s was deleted, the targets were %v: %v", doomed.Spec.ProviderID, atDeletion, err)
	}
	if got := f.faults.deleted(); !slices.Equal(got, []string{doomed.Spec.ProviderID}) {
		t.Errorf("the deletions are %v", got)
	}
	f.awaitTargets(t, names[1], names[2], "node-001")
	f.unharmed(t, before)
	f.round("two are left", func(r *round) error {
		if len(r.instances[small]) != 2 {
			return fmt.Errorf("the instances are %v", r.instances[small])
		}
		return sizes(map[string]int{small: 2, large: 0})(r)
	})
}

// witness returns nodes that nothing is to happen to.
func (f *fixture) witness(t *testing.T, names ...string) (nodes []*corev1.Node) {
	t.Helper()
	for _, name := range names {
		node, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		must.NoError(t, err)
		nodes = append(nodes, node)
	}
	return nodes
}

// unharmed fails if something has happened to nodes.
func (f *fixture) unharmed(t *testing.T, before []*corev1.Node) {
	t.Helper()
	for _, node := range before {
		now, err := admin.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
		must.NoError(t, err)
		if now.UID != node.UID || fmt.Sprint(now.Labels, now.Annotations, now.Spec.Taints) != fmt.Sprint(node.Labels, node.Annotations, node.Spec.Taints) {
			t.Errorf("node %s was %v %v %v and is %v %v %v", node.Name, node.Labels, node.Annotations, node.Spec.Taints, now.Labels, now.Annotations, now.Spec.Taints)
		}
		if slices.Contains(f.faults.deleted(), node.Spec.ProviderID) {
			t.Errorf("the instance of %s was to be deleted", node.Name)
		}
	}
}

// states returns the states of a group's instances, by provider ID.
func states(r *round, group string) map[string]externalgrpc.InstanceStatus_InstanceState {
	all := map[string]externalgrpc.InstanceStatus_InstanceState{}
	for _, instance := range r.instances[group] {
		all[instance.GetId()] = instance.GetStatus().GetInstanceState()
	}
	return all
}

// TestTakenBack has the autoscaler remove its taint before the instance is deleted. The manager then removes what it wrote on the node, and keeps a
// label that a user has set. The manager remembers the request for deletion across a restart.
func TestTakenBack(t *testing.T) {
	f := newFixture(t)
	f.balancer(t, "web")
	f.growSoon(small, 3)
	names := f.join(t, small, 3)
	f.awaitTargets(t, names...)
	edit(t, names[1], func(node *corev1.Node) { node.Labels[corev1.LabelNodeExcludeBalancers] = "" })
	f.awaitTargets(t, names[0], names[2])
	f.faults.set(true, nil) // until it is taken back
	before := f.witness(t, names...)
	f.round("three are there", sizes(map[string]int{small: 3, large: 0}))
	f.shrink(names[0], names[1])
	f.awaitTargets(t, names[2])
	f.end(t)
	f.launch(t)
	f.round("what is to be deleted is shown so, after a restart", func(r *round) error {
		if got := states(r, small); got[before[0].Spec.ProviderID] != externalgrpc.InstanceStatus_instanceDeleting ||
			got[before[1].Spec.ProviderID] != externalgrpc.InstanceStatus_instanceDeleting || got[before[2].Spec.ProviderID] != externalgrpc.InstanceStatus_instanceRunning {
			return fmt.Errorf("the states are %v", got)
		}
		return sizes(map[string]int{small: 1, large: 0})(r)
	})
	untaint(t, names[0])
	untaint(t, names[1])
	f.awaitTargets(t, names[0], names[2])
	f.awaitNode(t, names[1], "has only the label that was there", func(node *corev1.Node) error {
		if fmt.Sprint(node.Labels, node.Annotations, node.Spec.Taints) != fmt.Sprint(before[1].Labels, before[1].Annotations, before[1].Spec.Taints) {
			return fmt.Errorf("it has %v %v %v", node.Labels, node.Annotations, node.Spec.Taints)
		}
		return nil
	})
	f.round("three are there again", sizes(map[string]int{small: 3, large: 0}))
	f.faults.set(false, nil)
	f.unharmed(t, before)
}

// TestRestart ends the manager between the wish and the deletion, and repeats the call before and after.
func TestRestart(t *testing.T) {
	f := newFixture(t)
	f.growSoon(small, 2)
	names := f.join(t, small, 2)
	f.round("two are there", sizes(map[string]int{small: 2, large: 0}))
	f.faults.set(true, nil)
	node := taint(t, names[0])
	f.persist("a deletion", func() error { return f.deleteNodes(node) })
	f.persist("a deletion", func() error { return f.deleteNodes(node) })
	f.end(t)
	f.faults.set(false, nil)
	f.launch(t)
	f.round("one is left", sizes(map[string]int{small: 1, large: 0}))
	f.awaitGone(t, small, names[0])
	f.persist("a deletion", func() error { return f.deleteFrom(small, node) })
	if got := f.faults.deleted(); !slices.Equal(got, []string{node.Spec.ProviderID}) {
		t.Errorf("the deletions are %v", got)
	}
	f.round("still one is left", sizes(map[string]int{small: 1, large: 0}))
}

// TestNeverRegistered has an instance deleted whose kubelet never came, and one that fails to be made: without a node there is nothing to wait for.
func TestNeverRegistered(t *testing.T) {
	f := newFixture(t)
	f.growSoon(small, 2)
	var ids []string
	f.round("two run", func(r *round) error {
		ids = nil
		for id, state := range states(r, small) {
			if state == externalgrpc.InstanceStatus_instanceRunning {
				ids = append(ids, id)
			}
		}
		if len(ids) != 2 {
			return errors.New("they do not")
		}
		return nil
	})
	f.persist("a deletion", func() error { return f.deleteFrom(small, fakeNode(ids[0])) })
	f.persist("a deletion", func() error { return f.deleteFrom(small, fakeNode(ids[0])) })
	f.round("one is left", sizes(map[string]int{small: 1, large: 0}))
	if got := f.faults.deleted(); !slices.Equal(got, ids[:1]) {
		t.Errorf("the deletions are %v, not %v", got, ids[:1])
	}
}

// growSoon is grow after a round, as soon as there is a connection.
func (f *fixture) growSoon(group string, delta int) {
	f.t.Helper()
	f.round("the groups are known", func(r *round) error {
		if r.groups[group] == nil {
			return errors.New("not yet")
		}
		return nil
	})
	f.grow(group, delta)
}

// leastRights are what the controller needs where no other runs. The account has no other right but to have its callers authenticated.
const leastRights = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: autoscaler-alone, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: autoscaler-alone}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, patch]}
- {apiGroups: [""], resources: [services], verbs: [list, watch]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: autoscaler-alone}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: autoscaler-alone}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: autoscaler-alone}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: autoscaler-alone, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: autoscaler-alone}]
`

// TestAlone runs the controller without any other, with the rights that it needs and no more. The test initializes and deletes nodes itself.
func TestAlone(t *testing.T) {
	must.NoError(t, cluster.Apply(t.Context(), []byte(leastRights)))
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceSystem, "autoscaler-alone")
	must.NoError(t, err)
	f := newFixture(t, "--controllers=cluster-autoscaler-provider", "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig)
	f.growSoon(small, 2)
	var names []string
	f.round("two run", func(r *round) error {
		names = nil
		found, err := f.instances(t.Context(), small)
		for _, instance := range found {
			if states(r, small)[sim.ProviderID(instance.ID)] == externalgrpc.InstanceStatus_instanceRunning {
				names = append(names, instance.Name+" "+sim.ProviderID(instance.ID))
			}
		}
		if len(names) != 2 {
			return fmt.Errorf("%v do: %v", names, err)
		}
		return nil
	})
	for _, each := range names {
		name, providerID, _ := strings.Cut(each, " ")
		_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID},
		}, metav1.CreateOptions{})
		must.NoError(t, err)
	}
	doomed, providerID, _ := strings.Cut(names[0], " ")
	f.shrink(doomed)
	poll.Until(t, "the instance of "+doomed+" is gone, and an event says so", func(ctx context.Context) error {
		found, err := f.instances(ctx, small)
		must.NoError(t, err)
		events, err := admin.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + doomed + ",reason=AutoscalerDeletionAccepted"})
		must.NoError(t, err)
		if len(found) != 1 || len(events.Items) != 1 || !slices.Equal(f.faults.deleted(), []string{providerID}) {
			return fmt.Errorf("there are %d instances and %d events, and the deletions are %v", len(found), len(events.Items), f.faults.deleted())
		}
		return nil
	})
	f.end(t) // a watch is logged when it has ended
	requireUsed(t, "system:serviceaccount:kube-system:autoscaler-alone", "get nodes", "watch nodes", "patch nodes", "watch services", "create events")
}

// requireUsed fails unless an account has used just these rights, and others only that come with them: lists, where an API server does not stream them,
// and the patches of events that are repeated.
func requireUsed(t *testing.T, user string, want ...string) {
	t.Helper()
	asked, err := cluster.AuditEvents(t.Context())
	must.NoError(t, err)
	used := map[string]bool{}
	for _, request := range asked {
		if request.User.Username != user || request.ObjectRef == nil || !slices.Contains([]string{"nodes", "services", "events"}, request.ObjectRef.Resource) {
			continue
		}
		right := request.Verb + " " + request.ObjectRef.Resource
		if request.ResponseStatus != nil && request.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("%s was refused", right)
		}
		used[right] = true
	}
	for _, right := range want {
		if !used[right] {
			t.Errorf("nothing needed the right to %s", right)
		}
		delete(used, right)
	}
	for right := range used {
		if !slices.Contains([]string{"list nodes", "list services", "patch events"}, right) {
			t.Errorf("the right to %s is not needed", right)
		}
	}
}
