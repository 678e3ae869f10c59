package node

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	s.reconciler = newReconciler(Options{
		Client: s.Client, LiveReader: s.Client, LabelManagers: []string{"cloud-controller-manager"}, Recorder: s.events,
		Inventory: instances.New(instances.Options{Cloud: s.cloud}), Owners: ownership.Rules{ProviderName: "sim"},
		StatusUpdateFrequency: DefaultStatusUpdateFrequency,
	})
	s.led = time.Now().Add(-time.Hour)
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
