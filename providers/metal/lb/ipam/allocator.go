package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/internal/required"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

const (
	// servicesPerPage is how many Services a page of the API server's list has.
	servicesPerPage = 500
	// retryRead is the pause after the Services could not be read from the API server.
	retryRead = time.Second
	// namespaceLasts is for how long the labels of a namespace are believed: a new leader looks at all Services at once.
	namespaceLasts = 10 * time.Second
	// unwatchedPeriod is how often the API server is asked about Services that the watch does not show.
	unwatchedPeriod = time.Minute
)

// Sources are what an Allocator that leads works with. Nodes may be missing.
type Sources struct {
	// Client reads Services from the API server itself, and a Service's namespace where a pool selects namespaces by label. It
	// needs the rights to list Services and, for such a pool, to get namespaces.
	Client kubernetes.Interface
	// Services watches the Services of all namespaces. The caller starts it.
	Services cache.SharedIndexInformer
	// Nodes watches all nodes, whose addresses no Service gets. The caller starts it. Nil: there are none to look at.
	Nodes cache.SharedIndexInformer
	// Recorder records events on Services, and on nodes whose addresses are in a pool.
	Recorder record.EventRecorder
	// Announced reports whether addresses are announced: an event says then where, and from which pool they are. Nil: they are not.
	Announced func() bool
}

// Allocator assigns addresses. It implements cloudprovider.LoadBalancer and answers on the leader only, while Run does.
type Allocator struct {
	// sources are what Lead gave; led says that it did. They do not change after.
	sources Sources
	led     atomic.Bool
	// changed has room for one: something has changed by which a Service may get an address that was refused.
	changed chan struct{}
	// nodesChanged has room for one: the addresses of nodes may have changed.
	nodesChanged chan struct{}

	// pools change with the lock held.
	pools atomic.Pointer[pool.Pools]

	mu sync.Mutex
	// allocations are nil unless Run is running, and ready is closed once they are complete. Problem says why they are not yet.
	allocations *allocations
	ready       chan struct{}
	problem     error
	// waiting are the requests that were refused last. Retry is called for requests that would be granted now; it may be nil.
	waiting map[types.UID]pool.Request
	retry   func(types.NamespacedName)
	// warned are the addresses of nodes that are in a pool, and of which an event has said so.
	warned map[netip.Addr]string
	// namespaces are the labels of namespaces that were read a short while ago.
	namespaces map[string]labeled
}

// labeled is what labels a namespace had.
type labeled struct {
	labels labels.Set
	at     time.Time
}

// ErrNotLeading says that a replica that does not lead was asked for addresses.
var ErrNotLeading = errors.New("this replica does not lead: it has no allocations of addresses")

// New returns an Allocator of the pools of a config, which does not lead yet. Registerer takes the metrics; nil: they are not exported. It
// fails if the pools are not valid.
func New(pools []config.Pool, registerer prometheus.Registerer) (*Allocator, error) {
	compiled, err := pool.New(pools)
	if err != nil {
		return nil, err
	}
	a := &Allocator{
		changed: make(chan struct{}, 1), nodesChanged: make(chan struct{}, 1), ready: make(chan struct{}),
		waiting: map[types.UID]pool.Request{}, namespaces: map[string]labeled{},
	}
	a.pools.Store(compiled)
	if registerer != nil {
		if err := registerer.Register(collector{a}); err != nil {
			return nil, fmt.Errorf("registering the metrics of the pools: %w", err)
		}
	}
	return a, nil
}

// Lead has every call wait for Run instead of failing with ErrNotLeading. It is called once, before Run. All sources that are missing are
// named in one error.
func (a *Allocator) Lead(sources Sources) error {
	if err := required.Check("allocator",
		required.Option{Name: "Client", Missing: sources.Client == nil}, required.Option{Name: "Services", Missing: sources.Services == nil},
		required.Option{Name: "Recorder", Missing: sources.Recorder == nil},
	); err != nil {
		return err
	}
	a.sources = sources
	a.led.Store(true)
	return nil
}

// Pools are the pools in force.
func (a *Allocator) Pools() *pool.Pools { return a.pools.Load() }

// Run keeps the allocations up to date until ctx ends. It may be called again then, and reads all Services anew, for another
// replica may have led in between. It returns an error only if the watch cannot be followed.
func (a *Allocator) Run(ctx context.Context) error {
	known := a.open()
	defer a.end()
	handler, err := a.sources.Services.AddEventHandler(a.handler(known))
	if err != nil {
		return fmt.Errorf("following the watch of services: %w", err)
	}
	defer func() {
		if err := a.sources.Services.RemoveEventHandler(handler); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Could not end following the watch of services")
		}
	}()
	endNodes, err := a.followNodes()
	if err != nil {
		return err
	}
	defer func() {
		if err := endNodes(); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Could not end following the watch of nodes")
		}
	}()
	if !a.awaitNodes(ctx) {
		return nil
	}
	a.handleNodes()
	if !a.load(ctx, known) {
		return nil
	}
	ticker := time.NewTicker(unwatchedPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.changed:
			a.handleChanges()
		case <-a.nodesChanged:
			a.handleNodes()
		case <-ticker.C:
			a.checkUnwatched(ctx, known)
		}
	}
}

// open makes allocations that are not complete yet.
func (a *Allocator) open() *allocations {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allocations, a.waiting, a.namespaces = newAllocations(a.pools.Load()), map[types.UID]pool.Request{}, map[string]labeled{}
	a.warned = nil
	return a.allocations
}

// load reads all Services from the API server, which knows what the leader before this one has written. It goes on trying until
// ctx ends, and then returns false.
func (a *Allocator) load(ctx context.Context, known *allocations) bool {
	for {
		err := a.eachService(ctx, func(service *corev1.Service) {
			a.mu.Lock()
			defer a.mu.Unlock()
			known.observe(service, false)
		})
		if ctx.Err() != nil {
			return false
		}
		a.mu.Lock()
		a.problem = err
		if err == nil {
			close(a.ready)
		}
		a.mu.Unlock()
		if err == nil {
			a.markChanged()
			return true
		}
		logr.FromContextOrDiscard(ctx).Error(err, "Could not read the addresses of Services; trying again")
		pause := time.NewTimer(retryRead)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return false
		}
	}
}

// end has every call wait for the next Run.
func (a *Allocator) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allocations, a.ready = nil, make(chan struct{})
}

// handler adds what the watch shows to the allocations.
func (a *Allocator) handler(known *allocations) cache.ResourceEventHandler {
	see := func(object any) {
		if service, ok := object.(*corev1.Service); ok {
			a.mu.Lock()
			known.observe(service, true)
			a.updateWaiting(known, service)
			a.mu.Unlock()
			a.markChanged()
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if service, ok := object.(*corev1.Service); ok {
				a.mu.Lock()
				known.forget(service.UID)
				delete(a.waiting, service.UID)
				a.mu.Unlock()
				a.markChanged()
			}
		},
	}
}

// updateWaiting brings a request that was refused up to date with its Service: what it asks for, and by which labels pools choose it, may
// have changed. The controller ensures it again by itself for the former only.
func (a *Allocator) updateWaiting(known *allocations, service *corev1.Service) {
	refused, found := a.waiting[service.UID]
	if !found {
		return
	}
	if request, err := requestOf(service, refused.NamespaceLabels); err == nil {
		request.Held = known.held(service)
		a.waiting[service.UID] = request
	}
}

// SetPools replaces the pools. Services keep the addresses that they have. A Service whose address is no longer in a pool gets an event,
// and a Service that was refused may get an address now. SetPools fails if the pools are not valid, and then the old ones stay.
func (a *Allocator) SetPools(pools []config.Pool) error {
	compiled, err := pool.New(pools)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.pools.Store(compiled)
	if a.allocations != nil {
		a.allocations.change(compiled)
	}
	a.mu.Unlock()
	a.markChanged()
	a.markNodes() // others may be in a pool now
	return nil
}

// RetryLoadBalancers calls retry with each Service that was refused and would get its addresses now, until ctx ends. See
// provider.Capabilities.
func (a *Allocator) RetryLoadBalancers(ctx context.Context, retry func(types.NamespacedName)) {
	a.setRetry(retry)
	a.markChanged()
	<-ctx.Done()
	a.setRetry(nil)
}

func (a *Allocator) setRetry(retry func(types.NamespacedName)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retry = retry
}

// Usage returns how much of each pool is assigned; false before that is known.
func (a *Allocator) Usage() ([]pool.Usage, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.ready:
		return a.allocations.state.Usage(), true
	default:
		return nil, false
	}
}

// markChanged has Run look for what follows from a change.
func (a *Allocator) markChanged() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// lock waits until the allocations are complete and returns them, with the lock held. The error says why they are not.
func (a *Allocator) lock(ctx context.Context) (*allocations, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !a.led.Load() {
		return nil, ErrNotLeading
	}
	for {
		a.mu.Lock()
		ready := a.ready
		select {
		case <-ready:
			return a.allocations, nil
		default:
		}
		a.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			a.mu.Lock()
			problem := a.problem
			a.mu.Unlock()
			if problem == nil {
				problem = errors.New("the provider is starting, or does not lead")
			}
			return nil, fmt.Errorf("it is not known yet which Services have which addresses (%w): %w", ctx.Err(), problem)
		}
	}
}
