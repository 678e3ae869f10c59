package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// shownCloud lists what it is given.
type shownCloud struct {
	cloudprovider.Interface
	show     []provider.Instance
	takes    time.Duration
	listings int
	asked    func() // is called when the cloud is asked; nil: nothing
	fails    error  // of listings
}

func (*shownCloud) ProviderName() string                           { return "sim" }
func (*shownCloud) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (*shownCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }
func (c *shownCloud) Capabilities() provider.Capabilities {
	return provider.Capabilities{ListInstances: func(_ context.Context, yield func([]provider.Instance) error) error {
		c.listings++
		if c.asked != nil {
			c.asked()
		}
		if c.fails != nil {
			return c.fails
		}
		page := slices.Clone(c.show)
		time.Sleep(c.takes)
		return yield(page)
	}}
}

func instance(providerID, name, zone string, addresses ...corev1.NodeAddress) provider.Instance {
	return provider.Instance{NodeName: types.NodeName(name), State: provider.InstanceRunning, InstanceMetadata: cloudprovider.InstanceMetadata{
		ProviderID: providerID, Zone: zone, NodeAddresses: addresses,
	}}
}

// small is a cluster with its cloud, in which passes are made over one node after the other.
type small struct {
	client.Client
	*reconciler
	cloud  *shownCloud
	events *record.FakeRecorder
}

func newSmall(funcs interceptor.Funcs, nodes ...*corev1.Node) *small {
	builder := fake.NewClientBuilder().WithStatusSubresource(&corev1.Node{}).WithInterceptorFuncs(funcs)
	for _, node := range nodes {
		builder = builder.WithObjects(node)
	}
	s := &small{Client: builder.Build(), cloud: &shownCloud{}, events: record.NewFakeRecorder(1000)}
	s.reconciler = &reconciler{
		reader: s.Client, live: s.Client, managers: managersOf([]string{"cloud-controller-manager"}), writer: writer{client: s.Client, traces: newTraces(nil)}, recorder: s.events,
		inventory: instances.New(instances.Options{Cloud: s.cloud}), owners: ownership.Rules{ProviderName: "sim"},
		state: newState(), metrics: newMetrics(nil, nil), known: 10 * time.Minute, led: time.Now().Add(-time.Hour), traces: newTraces(nil),
	}
	return s
}

// pass makes a pass over a node and returns what becomes of it.
func (s *small) pass(t *testing.T, name string) (*corev1.Node, reconcile.Result) {
	t.Helper()
	result, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	return s.node(t, name), result
}

func (s *small) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	if err := s.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	return node
}

// eventsSince returns the events since the last call.
func (s *small) eventsSince() []string {
	var got []string
	for len(s.events.Events) > 0 {
		got = append(got, <-s.events.Events)
	}
	return got
}

// The API server refuses the addresses of one node, for a while. That node gets all the rest at once, and its addresses as soon
// as they are taken; the other node has both.
func TestARefusedAddressWriteHoldsNothingElseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := true
		refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node0", errors.New("policy"))
		var nodes []*corev1.Node
		for _, name := range []string{"node0", "node1"} {
			nodes = append(nodes, newNode(withTaints(cloudTaint), func(n *corev1.Node) { n.Name, n.UID = name, types.UID(name) }))
		}
		s := newSmall(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			if refuses && object.GetName() == "node0" {
				return refused
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		}}, nodes...)
		s.cloud.show = []provider.Instance{
			instance("sim://0", "node0", "a", internalIP("10.0.0.1")), instance("sim://1", "node1", "a", internalIP("10.0.0.2")),
		}
		node0, result := s.pass(t, "node0")
		if ownership.Uninitialized(node0) || node0.Spec.ProviderID != "sim://0" || node0.Labels[corev1.LabelTopologyZone] != "a" {
			t.Fatalf("the node is %+v, want its provider ID and labels, and no taint", node0.Spec)
		}
		time.Sleep(minAnswerAge + time.Millisecond)
		synctest.Wait()
		got := strings.Join(s.eventsSince(), "\n")
		for _, part := range []string{"Normal Synced", "Warning WriteFailed The node is as the cloud says except for its addresses: ", "admission policies"} {
			if !strings.Contains(got, part) {
				t.Errorf("the node got the events %q, want %q", got, part)
			}
		}
		if node1, _ := s.pass(t, "node1"); ownership.Uninitialized(node1) || len(node1.Status.Addresses) != 1 {
			t.Errorf("the other node is %+v with %v", node1.Spec, node1.Status.Addresses)
		}
		for want := 5 * time.Millisecond; want < 5*time.Second; want *= 2 {
			if result.RequeueAfter < want || result.RequeueAfter > want+want/10 {
				t.Fatalf("the addresses are tried again after %s, want %s", result.RequeueAfter, want)
			}
			time.Sleep(result.RequeueAfter)
			_, result = s.pass(t, "node0")
		}
		refuses = false
		if node0, result = s.pass(t, "node0"); len(node0.Status.Addresses) != 1 || result.RequeueAfter != 0 {
			t.Errorf("the node has the addresses %v and is tried again after %s", node0.Status.Addresses, result.RequeueAfter)
		}
	})
}

// A server that is away for a moment, or overloaded, refuses nothing for good: nothing is written out of order.
func TestAnAddressWriteThatMayYetBeTakenComesFirst(t *testing.T) {
	for name, answer := range map[string]error{
		"no answer": context.DeadlineExceeded, "too many requests": apierrors.NewTooManyRequests("x", 1),
		"unavailable": apierrors.NewServiceUnavailable("x"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSmall(interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
					...client.SubResourcePatchOption,
				) error {
					return answer
				}}, newNode(withTaints(cloudTaint)))
				s.cloud.show = []provider.Instance{instance("sim://0", "node0", "a", internalIP("10.0.0.1"))}
				if node, result := s.pass(t, "node0"); !ownership.Uninitialized(node) || result.RequeueAfter < 5*time.Millisecond || result.RequeueAfter > 6*time.Millisecond {
					t.Errorf("the node is %+v and is tried again after %s", node.Spec, result.RequeueAfter)
				}
			})
		})
	}
}
