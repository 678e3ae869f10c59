package nodegroups

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

// groups are one node group whose deletions are noted.
type groups struct {
	provider.NodeGroups
	instances []provider.NodeGroupInstance
	min       int
	statusErr error
	deleted   []string
	hang      chan struct{}
}

func (g *groups) NodeGroupStatus(context.Context, string) (provider.NodeGroupStatus, error) {
	return provider.NodeGroupStatus{TargetSize: len(g.instances), Instances: g.instances}, g.statusErr
}

func (g *groups) ListNodeGroups(context.Context) ([]provider.NodeGroup, error) {
	return []provider.NodeGroup{{ID: "g", Min: g.min, Max: 9}}, nil
}

// sealer is the tests' Sealer.
func sealer(text string) string { return "sealed " + text }

func (g *groups) DeleteNodeGroupInstances(_ context.Context, _ string, ids []string) error {
	if g.hang != nil {
		<-g.hang
	}
	g.deleted = append(g.deleted, ids...)
	return nil
}

// marked is a node that is to be deleted.
func marked(t *testing.T, name string, edits ...func(*corev1.Node)) *corev1.Node {
	t.Helper()
	intent := deletion.Intent{Group: "g", ProviderID: "x://" + name, At: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}
	intent.Seal = sealer("uid-" + name + "\x00g\x00x://" + name + "\x002026-11-23T00:00:00Z")
	text, err := json.Marshal(intent)
	if err != nil {
		t.Fatal(err)
	}
	made := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{deletion.Annotation: string(text)}},
		Spec:       corev1.NodeSpec{ProviderID: "x://" + name, Taints: []corev1.Taint{{Key: deletion.Taint}}},
	}
	for _, edit := range edits {
		edit(made)
	}
	return made
}

// indexed is a builder that takes the indexes of a cache.
type indexed struct{ *fake.ClientBuilder }

func (i indexed) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(object, field, extract)
	return nil
}

func clientOf(t *testing.T, nodes ...*corev1.Node) client.Client {
	t.Helper()
	builder := fake.NewClientBuilder()
	if err := deletion.AddIndexes(t.Context(), indexed{builder}); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		builder.WithObjects(node.DeepCopy())
	}
	return builder.Build()
}

func reconciling(t *testing.T, cached, live client.Client, of provider.NodeGroups) *reconciler {
	t.Helper()
	beside, state := &beside{}, newState()
	beside.begin(t.Context())
	return &reconciler{
		cached: cached, live: live, client: live, recorder: record.NewFakeRecorder(100), groups: of, ours: func(*corev1.Node) bool { return true }, sealer: sealer,
		balancers: newBalancers(cached, nil, beside, func(string) {}), wait: time.Minute, state: state, beside: beside, again: func(string) {},
		metrics: newMetrics(nil, state.count), limiter: &kit.EventLimiter{},
	}
}

// TestForgedIntents has a kubelet register a node with the provider ID of an instance that has no node yet, with the taint and an annotation of its
// own or one of another node: nothing is deleted. Nor is an instance that the group cannot do without by now.
func TestForgedIntents(t *testing.T) {
	intent := marked(t, "a").Annotations[deletion.Annotation]
	for name, c := range map[string]struct {
		node *corev1.Node
		min  int
		err  string
	}{
		"not requested": {marked(t, "worker-7", func(n *corev1.Node) {
			n.Spec.ProviderID = "x://a"
			n.Annotations[deletion.Annotation] = `{"group":"g","providerID":"x://a","at":"2026-01-01T00:00:00Z"}`
		}), 0, "is not sealed by this manager"},
		"it was asked for of another node": {marked(t, "worker-7", func(n *corev1.Node) {
			n.Spec.ProviderID, n.Annotations[deletion.Annotation] = "x://a", intent
		}), 0, "is not sealed by this manager"},
		"the group is at its minimum": {marked(t, "a"), 2, `would have 1, and its minimum is 2`},
	} {
		t.Run(name, func(t *testing.T) {
			of := &groups{min: c.min, instances: []provider.NodeGroupInstance{{ProviderID: "x://a"}, {ProviderID: "x://b"}}}
			api := clientOf(t, c.node)
			intent, err := deletion.Of(c.node)
			if err != nil {
				t.Fatal(err)
			}
			err = reconciling(t, api, api, of).delete(t.Context(), c.node, *intent, "")
			if err == nil || !strings.Contains(err.Error(), c.err) || len(of.deleted) > 0 {
				t.Errorf("error %v, want %q; deleted are %v", err, c.err, of.deleted)
			}
		})
	}
}

// TestLastLook has the API server or the cloud say otherwise than the cache right before an instance is deleted: it is not.
func TestLastLook(t *testing.T) {
	for name, c := range map[string]struct {
		live     func(*corev1.Node)
		instance provider.NodeGroupInstance
		others   []*corev1.Node
		foreign  bool
		deleted  bool
		err      string
	}{
		"as it was":            {instance: provider.NodeGroupInstance{ProviderID: "x://a", NodeName: "a"}, deleted: true},
		"the taint is gone":    {live: func(n *corev1.Node) { n.Spec.Taints = nil }, instance: provider.NodeGroupInstance{ProviderID: "x://a"}, err: errChanged.Error()},
		"the intent is gone":   {live: func(n *corev1.Node) { n.Annotations = nil }, instance: provider.NodeGroupInstance{ProviderID: "x://a"}, err: errChanged.Error()},
		"another node":         {live: func(n *corev1.Node) { n.UID = "another" }, instance: provider.NodeGroupInstance{ProviderID: "x://a"}, err: errChanged.Error()},
		"a foreign node":       {foreign: true, instance: provider.NodeGroupInstance{ProviderID: "x://a"}, err: errForeign.Error()},
		"another node's":       {instance: provider.NodeGroupInstance{ProviderID: "x://a", NodeName: "b"}, err: `belongs to the node "b"`},
		"one of two":           {instance: provider.NodeGroupInstance{ProviderID: "x://a"}, others: []*corev1.Node{marked(t, "b", func(n *corev1.Node) { n.Spec.ProviderID = "x://a" })}, err: "other nodes have its provider ID: b"},
		"gone":                 {instance: provider.NodeGroupInstance{ProviderID: "x://b"}},
		"deleted by the cloud": {instance: provider.NodeGroupInstance{ProviderID: "x://a", State: provider.NodeGroupInstanceDeleting}},
		"another provider ID":  {live: func(n *corev1.Node) { n.Spec.ProviderID = "x://b" }, instance: provider.NodeGroupInstance{ProviderID: "x://a"}, err: "about the instance"},
	} {
		t.Run(name, func(t *testing.T) {
			seen, now := marked(t, "a"), marked(t, "a")
			if c.live != nil {
				c.live(now)
			}
			of := &groups{instances: []provider.NodeGroupInstance{c.instance}}
			r := reconciling(t, clientOf(t, append(c.others, seen)...), clientOf(t, append(c.others, now)...), of)
			r.ours = func(*corev1.Node) bool { return !c.foreign }
			intent, err := deletion.Of(seen)
			if err != nil {
				t.Fatal(err)
			}
			err = r.delete(t.Context(), seen, *intent, "")
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("the error is %v, not %q", err, c.err)
			}
			if (len(of.deleted) > 0) != c.deleted {
				t.Errorf("deleted are %v", of.deleted)
			}
		})
	}
}

// TestOneOfAGroup has the deletion of one node hang. The controller begins no other deletion in that group, no worker waits, and the deletion in
// another group goes on.
func TestOneOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := marked(t, "c")
		other.Annotations[deletion.Annotation] = strings.NewReplacer(`"g"`, `"other"`, `\u0000g\u0000`, `\u0000other\u0000`).Replace(other.Annotations[deletion.Annotation])
		nodes := clientOf(t, marked(t, "a"), marked(t, "b"), other)
		stuck := make(chan struct{})
		of := &byGroup{"g": {hang: stuck}, "other": {}}
		for _, each := range *of {
			each.instances = []provider.NodeGroupInstance{{ProviderID: "x://a"}, {ProviderID: "x://b"}, {ProviderID: "x://c"}}
		}
		r := reconciling(t, nodes, nodes, of)
		look := func(name string) time.Duration {
			t.Helper()
			result, err := r.Reconcile(logr.NewContext(t.Context(), logr.Discard()), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return result.RequeueAfter
		}
		look("a")
		if after := look("b"); after != busyAgain {
			t.Errorf("the second of the group is looked at after %s", after)
		}
		look("c")
		if got := (*of)["other"].deleted; len(got) != 1 {
			t.Errorf("of the other group are deleted: %v", got)
		}
		close(stuck)
		synctest.Wait()
		look("b")
		if got := (*of)["g"].deleted; len(got) != 2 {
			t.Errorf("of the group are deleted: %v", got)
		}
		if after := look("a"); after <= 0 || after > insist {
			t.Errorf("one that was accepted is looked at after %s", after)
		}
		if n := r.state.count(); n != 3 {
			t.Errorf("%d are pending", n)
		}
	})
}

// byGroup are several groups.
type byGroup map[string]*groups

func (b *byGroup) ListNodeGroups(context.Context) ([]provider.NodeGroup, error) { return nil, nil }

func (b *byGroup) NodeGroupStatus(ctx context.Context, group string) (provider.NodeGroupStatus, error) {
	return (*b)[group].NodeGroupStatus(ctx, group)
}

func (b *byGroup) NodeGroupTemplate(context.Context, string) (*corev1.Node, error) {
	return nil, errors.New("not asked for")
}

func (b *byGroup) IncreaseNodeGroup(context.Context, string, int) error {
	return errors.New("not asked for")
}

func (b *byGroup) DecreaseNodeGroupTarget(context.Context, string, int) error {
	return errors.New("not asked for")
}

func (b *byGroup) DeleteNodeGroupInstances(ctx context.Context, group string, ids []string) error {
	return (*b)[group].DeleteNodeGroupInstances(ctx, group, ids)
}

// TestBalancersAreListedOnce has several nodes ask at once. One list answers all nodes that asked before it began, and each node gets its answer
// once.
func TestBalancersAreListedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		lists, again := 0, []string{}
		beside := &beside{}
		beside.begin(t.Context())
		cached := fake.NewClientBuilder().WithObjects(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}).Build()
		var fails error
		b := newBalancers(cached, func(context.Context) ([]provider.LoadBalancer, error) {
			mu.Lock()
			lists++
			mu.Unlock()
			time.Sleep(time.Second)
			return []provider.LoadBalancer{
				{Service: types.NamespacedName{Namespace: "default", Name: "web"}, Targets: []types.NodeName{"a"}}, {Targets: []types.NodeName{}},
			}, fails
		}, beside, func(node string) {
			mu.Lock()
			defer mu.Unlock()
			again = append(again, node)
		})
		ask := func(node string) (answer, bool) {
			said, answered, err := b.of(t.Context(), node)
			if err != nil {
				t.Fatal(err)
			}
			return said, answered
		}
		for _, node := range []string{"a", "a", "b"} {
			if _, answered := ask(node); answered {
				t.Errorf("%s is answered before there is a list", node)
			}
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if a, answered := ask("a"); !answered || a.state != targetOf || len(a.names) != 1 || a.names[0] != "default/web" {
			t.Errorf("a: %+v", a)
		}
		if b, answered := ask("b"); !answered || b.state != targetOfNone {
			t.Errorf("b: %+v", b)
		}
		if lists != 2 || len(again) != 2 { // b asked after the first had begun
			t.Errorf("%d lists, and %v were told", lists, again)
		}
		fails = errors.New("no")
		ask("a")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if a, answered := ask("a"); !answered || a.state != targetNotListed {
			t.Errorf("a: %+v", a)
		}
	})
}
