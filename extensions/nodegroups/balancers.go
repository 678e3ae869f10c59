package nodegroups

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/provider"
)

// listTimeout is how long a list of load balancers is waited for.
const listTimeout = 10 * time.Second

// listBalancers is provider.Capabilities.ListLoadBalancers for this cluster.
type listBalancers func(ctx context.Context) ([]provider.LoadBalancer, error)

// balancers knows which load balancers have a node as a target. One list is made for all nodes, and no worker waits for it.
type balancers struct {
	cached client.Reader
	list   listBalancers // nil: the provider has no list
	beside *beside
	again  func(node string) // has a node looked at again

	mu     sync.Mutex
	asking bool
	// current are the nodes that the running list is for. next are the nodes whose questions came after it began.
	current, next map[string]bool
	// answers are for nodes that have not come for them yet.
	answers map[string]answer
}

// answer is what a list says of a node.
type answer struct {
	state targetState
	names []string
}

func newBalancers(cached client.Reader, list listBalancers, beside *beside, again func(string)) *balancers {
	return &balancers{cached: cached, list: list, beside: beside, again: again, next: map[string]bool{}, answers: map[string]answer{}}
}

// of returns whether load balancers have a node as a target. It returns false while they are being listed; the node is looked at again then.
func (b *balancers) of(ctx context.Context, node string) (answer, bool, error) {
	found, err := b.any(ctx)
	if err != nil || !found {
		return answer{state: targetOfNone}, true, err
	}
	if b.list == nil {
		return answer{state: targetUnknown}, true, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if said, found := b.answers[node]; found {
		delete(b.answers, node)
		return said, true, nil
	}
	if !b.current[node] {
		b.next[node] = true
	}
	b.ask()
	return answer{}, false, nil
}

// forget drops what is kept for a node that is gone.
func (b *balancers) forget(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.answers, node)
	delete(b.next, node)
}

// targetsIn returns which of the listed load balancers have a node.
func targetsIn(listed []provider.LoadBalancer, node string) (targetState, []string) {
	unknown, names := false, []string{}
	for _, balancer := range listed {
		unknown = unknown || balancer.Targets == nil
		if slices.ContainsFunc(balancer.Targets, func(target types.NodeName) bool { return string(target) == node }) {
			names = append(names, balancer.Service.String())
		}
	}
	slices.Sort(names)
	switch {
	case len(names) > 0:
		return targetOf, names
	case unknown:
		return targetUnknown, nil
	default:
		return targetOfNone, nil
	}
}

// any reports whether there are Services that have load balancers or may get them.
func (b *balancers) any(ctx context.Context) (bool, error) {
	var list corev1.ServiceList
	if err := b.cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // only read
		return false, fmt.Errorf("listing Services: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(service corev1.Service) bool {
		return service.Spec.Type == corev1.ServiceTypeLoadBalancer || servicehelpers.HasLBFinalizer(&service)
	}), nil
}

// ask lists the load balancers beside, unless that is under way. The lock is held.
func (b *balancers) ask() {
	if b.asking || len(b.next) == 0 {
		return
	}
	b.asking, b.current, b.next = true, b.next, map[string]bool{}
	var listed []provider.LoadBalancer
	b.beside.run(func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		listed, err = b.list(ctx)
		return err
	}, func(err error) {
		for node := range b.end(listed, err) {
			b.again(node)
		}
	})
}

// end keeps what a list says, and returns the nodes that it is for.
func (b *balancers) end(listed []provider.LoadBalancer, err error) map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.current
	for node := range asked {
		said := answer{state: targetNotListed}
		if err == nil {
			said.state, said.names = targetsIn(listed, node)
		}
		b.answers[node] = said
	}
	b.asking, b.current = false, nil
	if len(b.next) > 0 {
		b.ask()
	}
	return asked
}
