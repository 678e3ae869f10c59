package nodelifecycle

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// bareCloud is a plugin whose provider IDs have no scheme, like the provider IDs of Alibaba Cloud and Oracle's cloud. It has an instance for every
// node whose instance has not ended.
type bareCloud struct {
	cloudprovider.Interface
	ended map[string]bool
}

func (b *bareCloud) ProviderName() string                           { return "sim" }
func (b *bareCloud) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (b *bareCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return b, true }

func (b *bareCloud) has(node *corev1.Node) bool { return !b.ended[node.Name] }

func (b *bareCloud) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	return b.has(node), nil
}

func (b *bareCloud) InstanceShutdown(context.Context, *corev1.Node) (bool, error) { return false, nil }

func (b *bareCloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if !b.has(node) {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID}, nil
}

// bareNode returns a ready node whose provider ID has no scheme.
func bareNode(name string, edits ...edit) *corev1.Node {
	n := node(name, corev1.ConditionTrue, edits...)
	n.Spec.ProviderID = "ocid1.instance.oc1.phx." + name
	return n
}

// carrying gives a node a record that a node of this name was proven to be ours.
func carrying(name string, rules ownership.Rules) edit {
	return func(n *corev1.Node) {
		id := bareNode(name).Spec.ProviderID
		n.Annotations = map[string]string{ownership.AnnotationProven: rules.Record(id, id)}
	}
}

// leads starts a controller over nodes that are there already, with an inventory that knows nothing, and runs act beside it.
func leads(t *testing.T, rules ownership.Rules, cloud *bareCloud, nodes []*corev1.Node, act func(context.Context, *scene, *instances.Inventory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &scene{cluster: &memoryNodes{nodes: map[string]*corev1.Node{}}, events: record.NewFakeRecorder(10_000)}
		caches := &informertest.FakeInformers{}
		var err error
		if s.informer, err = caches.FakeInformerFor(ctx, &corev1.Node{}); err != nil {
			t.Fatal(err)
		}
		settings, source := DefaultSettings(), instances.New(instances.Options{Cloud: cloud})
		settings.Limit = Limit{Percent: 100}
		controller := New(Options{
			Client: s.cluster, Cache: caches, Recorder: s.events, Inventory: source,
			Owners: rules, DeletionLog: &DeletionLog{}, Settings: settings, Logger: logr.Discard(),
		})
		for _, n := range nodes {
			n.CreationTimestamp.Time = time.Now().Add(-time.Hour)
			s.cluster.nodes[n.Name] = n
		}
		var running sync.WaitGroup
		running.Go(func() { _ = controller.Start(ctx) })
		synctest.Wait()
		for _, n := range nodes {
			s.informer.Add(n)
		}
		time.Sleep(time.Minute)
		act(ctx, s, source)
		cancel()
		running.Wait()
	})
}

func (s *scene) expectThere(t *testing.T, want map[string]bool) {
	t.Helper()
	for name, is := range want {
		if got := s.cluster.get(name) != nil; got != is {
			t.Errorf("node %s is there: %t, want %t", name, got, is)
		}
	}
}

// A node whose provider ID has no scheme is deleted when the plugin denies it, also by a leader that has never seen its instance. One that says
// that it is another provider's is left alone, and so is one whose kind of provider ID is not declared.
func TestANewLeaderDeletesADeadNodeWithABareID(t *testing.T) {
	plain := ownership.Rules{ProviderName: "sim"}
	bare := ownership.Rules{ProviderName: "sim", Schemes: []string{ownership.BareIDs}}
	silent := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	for name, test := range map[string]struct {
		rules   ownership.Rules
		record  edit
		deleted bool
	}{
		"with a record":              {plain, carrying("dead", plain), true},
		"with another node's record": {plain, carrying("r1", ownership.Rules{ProviderName: "other"}), true},
		"with another provider's":    {plain, carrying("dead", ownership.Rules{ProviderName: "other"}), false},
		"without a record":           {plain, func(*corev1.Node) {}, true},
		"declared":                   {bare, func(*corev1.Node) {}, true},
		"not declared":               {ownership.Rules{ProviderName: "sim", Schemes: []string{"sim"}}, func(*corev1.Node) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &bareCloud{ended: map[string]bool{"dead": true}}
			nodes := []*corev1.Node{bareNode("dead", silent, test.record)}
			for _, healthy := range healthy {
				nodes = append(nodes, bareNode(healthy))
			}
			leads(t, test.rules, cloud, nodes, func(_ context.Context, s *scene, _ *instances.Inventory) {
				time.Sleep(time.Hour)
				want := map[string]bool{"dead": !test.deleted}
				for _, name := range healthy {
					want[name] = true
				}
				s.expectThere(t, want)
			})
		})
	}
}
