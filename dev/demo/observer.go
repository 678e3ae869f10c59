package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/demo/scenario"
)

// leaseName is the lease that the replicas compete for, in kube-system.
const leaseName = "cloud-controller-manager"

// observer is what the watches of nodes and of the lease have shown last.
type observer struct {
	report func(scenario.Event)

	mu sync.Mutex
	view
	// types are the machine types that each node has shown, one after the other.
	types map[string][]string
	// changed is closed and replaced with every change.
	changed chan struct{}
}

// view is what is known of the cluster. Its objects are shared and must not be changed.
type view struct {
	nodes map[string]*corev1.Node
	// holder is the identity in the lease; empty if no replica holds it.
	holder string
}

func newObserver(report func(scenario.Event)) *observer {
	return &observer{report: report, view: view{nodes: map[string]*corev1.Node{}}, types: map[string][]string{}, changed: make(chan struct{})}
}

// start watches until ctx ends, and returns when it knows what is there.
func (o *observer) start(ctx context.Context, client kubernetes.Interface) (stop func(context.Context) error, err error) {
	all := informers.NewSharedInformerFactory(client, 0)
	one := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(metav1.NamespaceSystem),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", leaseName).String()
		}))
	nodes, leases := all.Core().V1().Nodes().Informer(), one.Coordination().V1().Leases().Informer()
	_, err1 := nodes.AddEventHandler(handler(o.sawNode, o.missesNode))
	_, err2 := leases.AddEventHandler(handler(o.sawLease, nil))
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("watch the cluster: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	all.Start(ctx.Done())
	one.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced, leases.HasSynced) {
		cancel()
		return nil, fmt.Errorf("watch the cluster: %w", context.Cause(ctx))
	}
	return func(context.Context) error {
		cancel()
		all.Shutdown()
		one.Shutdown()
		return nil
	}, nil
}

// handler passes every version of an object on, and the name of one that was deleted. Nil: it does not matter.
func handler[T any](saw func(T), misses func(name string)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { saw(object.(T)) },
		UpdateFunc: func(_, object any) { saw(object.(T)) },
		DeleteFunc: func(object any) {
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil && misses != nil {
				misses(name.Name)
			}
		},
	}
}

func (o *observer) sawNode(node *corev1.Node) {
	state := stateOf(node)
	o.report(scenario.NodeSeen{At: time.Now(), Name: node.Name, NodeState: state})
	o.change(func() {
		o.nodes[node.Name] = node
		shown := o.types[node.Name]
		if state.Type != "" && (len(shown) == 0 || shown[len(shown)-1] != state.Type) {
			o.types[node.Name] = append(shown, state.Type)
		}
	})
}

func (o *observer) missesNode(name string) {
	o.report(scenario.NodeGone{At: time.Now(), Name: name})
	o.change(func() { delete(o.nodes, name) })
}

func (o *observer) sawLease(lease *coordinationv1.Lease) {
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	o.change(func() { o.holder = holder })
}

func (o *observer) change(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	close(o.changed)
	o.changed = make(chan struct{})
}

// await waits until missing returns nil, and returns what was missing last when ctx ends before.
func (o *observer) await(ctx context.Context, missing func(view) error) error {
	for {
		o.mu.Lock()
		lacks, changed := missing(o.view), o.changed
		o.mu.Unlock()
		if lacks == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), lacks)
		}
	}
}

// typesOf returns the machine types that a node has shown, one after the other.
func (o *observer) typesOf(node string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.types[node])
}

// stateOf is what is shown of a node.
func stateOf(node *corev1.Node) scenario.NodeState {
	state := scenario.NodeState{
		ProviderID: node.Spec.ProviderID,
		Zone:       node.Labels[corev1.LabelTopologyZone],
		Type:       node.Labels[corev1.LabelInstanceTypeStable],
		Internal:   addressOf(node, corev1.NodeInternalIP),
		External:   addressOf(node, corev1.NodeExternalIP),
	}
	state.Schedulable = !node.Spec.Unschedulable
	for _, taint := range node.Spec.Taints {
		state.Tainted = state.Tainted || taint.Key == cloudproviderapi.TaintExternalCloudProvider
		state.ShutDown = state.ShutDown || taint.Key == cloudproviderapi.TaintNodeShutdown
		state.Schedulable = state.Schedulable && taint.Effect == corev1.TaintEffectPreferNoSchedule
	}
	for _, condition := range node.Status.Conditions {
		switch condition.Type {
		case corev1.NodeReady:
			state.Ready = condition.Status == corev1.ConditionTrue
		case conditionInstanceGone:
			state.Held = true
		}
	}
	return state
}

func addressOf(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, address := range node.Status.Addresses {
		if address.Type == kind {
			return address.Address
		}
	}
	return ""
}
