package ipam

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

// Writes is how many calls for different Services may be under way at once: the allocations are in memory, and
// most calls wait for nothing.
const Writes = 16

var _ cloudprovider.LoadBalancer = (*Allocator)(nil)

// GetLoadBalancerName returns the default name; nothing has it.
func (a *Allocator) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// GetLoadBalancer returns the addresses that are allocated to a Service.
func (a *Allocator) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service,
) (status *corev1.LoadBalancerStatus, exists bool, err error) {
	known, err := a.lock(ctx)
	if err != nil {
		return nil, false, err
	}
	defer a.mu.Unlock()
	e, found := known.entries[service.UID]
	if !found {
		return nil, false, nil
	}
	status = e.status()
	return status, status != nil, nil
}

// EnsureLoadBalancer gives a Service the addresses that it asks for, or leaves it the ones that it has. Nodes do not matter for addresses:
// see UpdateLoadBalancer. If the Service does not get an address, the error wraps a *pool.RefusedError and is a *provider.TerminalError: it
// is worth trying again when the Service, the pools or other Services have changed.
func (a *Allocator) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, _ []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	if !a.led.Load() {
		return nil, ErrNotLeading
	}
	namespaceLabels, err := a.labelsOf(ctx, service.Namespace)
	if err != nil {
		return nil, err
	}
	request, err := requestOf(service, namespaceLabels)
	if err != nil {
		return nil, &provider.TerminalError{Err: err}
	}
	done, err := a.assign(ctx, service, request, false)
	if done.unseen {
		// It is about to give up an address that it was granted, and may show it by now without that we have seen it.
		if err := a.refresh(ctx, done.allocations, request.Service, request.UID); err != nil {
			return nil, err
		}
		done, err = a.assign(ctx, service, request, true)
	}
	if err != nil {
		return nil, err
	}
	a.recordGranted(request, done)
	return done.status, nil
}

// assigned is what became of a request.
type assigned struct {
	allocations *allocations
	// unseen says that nothing was granted, because the API server has to be asked first.
	unseen bool
	status *corev1.LoadBalancerStatus
	// gained are the addresses that the Service did not have before, with the names of their pools.
	gained map[netip.Addr]string
	// notes are the notes that were not recorded before.
	notes []pool.Note
}

// assign answers a request by the allocations, and adds the answer to them. Fresh says that the API server was just asked about the
// Service.
func (a *Allocator) assign(ctx context.Context, service *corev1.Service, request pool.Request, fresh bool) (assigned, error) {
	known, err := a.lock(ctx)
	if err != nil {
		return assigned{}, err
	}
	defer a.mu.Unlock()
	request.Held = known.held(service)
	granted, err := pool.Allocate(known.state, request)
	if err != nil {
		a.waiting[request.UID] = request
		return assigned{allocations: known}, &provider.TerminalError{Err: err}
	}
	if !fresh && known.unseen(request.UID, granted.Addresses) {
		return assigned{allocations: known, unseen: true}, nil
	}
	delete(a.waiting, request.UID)
	e := known.grant(service, grant{granted.Addresses, service.Spec.Ports, provider.ClusterUID(ctx)})
	a.markChanged()
	done := assigned{allocations: known, status: e.status(), gained: map[netip.Addr]string{}}
	for _, addr := range granted.Addresses {
		if !slices.Contains(request.Held, addr) {
			done.gained[addr] = known.state.Pools().Of(addr)
		}
	}
	if ignored := ignoredOf(service); ignored != "" {
		granted.Notes = append(granted.Notes, pool.Note{Reason: EventForeign, Message: ignored})
	}
	for _, note := range granted.Notes {
		if e.warnOnce(note.Message) {
			done.notes = append(done.notes, note)
		}
	}
	return done, nil
}

// UpdateLoadBalancer has nothing to do: an address has no list of nodes behind it. The announcer watches nodes, endpoints and their health
// by itself, on every replica, and is faster than this call could be. As the contract wants it, a Service that has no load balancer gets
// none here.
func (a *Allocator) UpdateLoadBalancer(ctx context.Context, _ string, _ *corev1.Service, _ []*corev1.Node) error {
	return ctx.Err()
}

// EnsureLoadBalancerDeleted takes a Service's addresses back. Another Service gets them when the API server no longer shows them in the
// status of this one.
func (a *Allocator) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	known, err := a.lock(ctx)
	if err != nil {
		return err
	}
	delete(a.waiting, service.UID)
	unseen := known.unseen(service.UID, nil)
	a.mu.Unlock()
	if unseen {
		key := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
		if err := a.refresh(ctx, known, key, service.UID); err != nil {
			return err
		}
	}
	if known, err = a.lock(ctx); err != nil {
		return err
	}
	defer a.mu.Unlock()
	known.release(service.UID)
	a.markChanged()
	return nil
}

// ListLoadBalancers returns what is allocated: what was granted to Services, and the addresses in our pools that Services show
// which have not been looked at since this process leads. It is never short, and costs no call.
func (a *Allocator) ListLoadBalancers(ctx context.Context, _ string) ([]provider.LoadBalancer, error) {
	known, err := a.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer a.mu.Unlock()
	var listed []provider.LoadBalancer
	for uid, e := range known.entries {
		status := e.status()
		if status == nil || (e.grant == nil && !known.pooled(e)) {
			continue
		}
		one := provider.LoadBalancer{
			Name: e.holder.Service.String(), Service: e.holder.Service, ServiceUID: uid, Status: *status, Ports: slices.Clone(e.ports),
		}
		if e.grant != nil {
			one.ClusterUID, one.Ports = e.grant.clusterUID, slices.Clone(e.grant.ports)
		}
		listed = append(listed, one)
	}
	return listed, nil
}

// Refusal returns why a Service was refused, nil if err is about something else.
func Refusal(err error) *pool.RefusedError {
	var refused *pool.RefusedError
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}
