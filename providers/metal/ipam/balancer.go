package ipam

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/ipam/pool"
)

const (
	// servicesPerPage is how many Services a page of the API server's list has.
	servicesPerPage = 500
	// retryRead is the pause after the Services could not be read from the API server.
	retryRead = time.Second
	// namespaceLasts is for how long the labels of a namespace are believed: a new leader looks at all Services at once.
	namespaceLasts = 10 * time.Second
	// sweepPeriod is how often the API server is asked about Services that the watch does not show.
	sweepPeriod = time.Minute
)

// Options are what a Balancer works with. Client, Services and Recorder are required.
type Options struct {
	// Client reads Services from the API server itself, and a Service's namespace where a pool selects namespaces by label. It
	// needs the rights to list Services and, for such a pool, to get namespaces.
	Client kubernetes.Interface
	// Services watches the Services of all namespaces. It is started by whoever made it.
	Services cache.SharedIndexInformer
	// Recorder records events on Services.
	Recorder record.EventRecorder
	// Pools are those of a config that is valid.
	Pools []config.Pool
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
}

// Balancer assigns addresses. It implements cloudprovider.LoadBalancer and answers on the leader only, while Run does.
type Balancer struct {
	options Options
	// dirty has room for one: something has changed by which a Service may get an address that was refused.
	dirty chan struct{}

	mu    sync.Mutex
	pools *pool.Pools
	// ledger is nil unless Run is running, and ready is closed once it is complete. Why it is not yet, problem says.
	ledger  *ledger
	ready   chan struct{}
	problem error
	// waiting are the requests that were refused last, and retry is told of those that would not be any more. Nil: nobody is.
	waiting map[types.UID]pool.Request
	retry   func(types.NamespacedName)
	// namespaces are the labels of namespaces that were read a short while ago.
	namespaces map[string]labeled
}

// labeled is what labels a namespace had.
type labeled struct {
	labels labels.Set
	at     time.Time
}

// New returns a Balancer that does not run yet. It fails if an option is missing or the pools are not valid.
func New(options Options) (*Balancer, error) {
	var wrong []error
	for _, required := range []struct {
		name   string
		absent bool
	}{
		{"Client", options.Client == nil},
		{"Services", options.Services == nil},
		{"Recorder", options.Recorder == nil},
	} {
		if required.absent {
			wrong = append(wrong, fmt.Errorf("the option %s of the load balancers is required", required.name))
		}
	}
	pools, err := pool.New(options.Pools)
	if err := errors.Join(append(wrong, err)...); err != nil {
		return nil, err
	}
	b := &Balancer{
		options: options, pools: pools, dirty: make(chan struct{}, 1), ready: make(chan struct{}),
		waiting: map[types.UID]pool.Request{}, namespaces: map[string]labeled{},
	}
	if options.Registerer != nil {
		if err := options.Registerer.Register(collector{b}); err != nil {
			return nil, fmt.Errorf("registering the metrics of the pools: %w", err)
		}
	}
	return b, nil
}

// Run keeps the record of addresses until ctx ends. It may be called again then: the record begins anew, for somebody else may
// have led in between. It returns an error only if the watch cannot be followed.
func (b *Balancer) Run(ctx context.Context) error {
	r := b.open()
	defer b.end()
	handler, err := b.options.Services.AddEventHandler(b.handler(r))
	if err != nil {
		return fmt.Errorf("following the watch of services: %w", err)
	}
	defer func() {
		if err := b.options.Services.RemoveEventHandler(handler); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Could not end following the watch of services")
		}
	}()
	if !b.begin(ctx, r) {
		return nil
	}
	ticker := time.NewTicker(sweepPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.dirty:
			b.settle()
		case <-ticker.C:
			b.sweep(ctx, r)
		}
	}
}

// open begins a ledger, which is not complete yet.
func (b *Balancer) open() *ledger {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger, b.waiting, b.namespaces = newLedger(b.pools), map[types.UID]pool.Request{}, map[string]labeled{}
	return b.ledger
}

// begin reads all Services from the API server, which knows what the leader before this one has written. It goes on trying until
// ctx ends, and then returns false.
func (b *Balancer) begin(ctx context.Context, r *ledger) bool {
	for {
		err := b.eachService(ctx, func(service *corev1.Service) {
			b.mu.Lock()
			defer b.mu.Unlock()
			r.observe(service, false)
		})
		if ctx.Err() != nil {
			return false
		}
		b.mu.Lock()
		b.problem = err
		if err == nil {
			close(b.ready)
		}
		b.mu.Unlock()
		if err == nil {
			b.touch()
			return true
		}
		logr.FromContextOrDiscard(ctx).Error(err, "Could not read which Services have which addresses; trying again")
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
func (b *Balancer) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger, b.ready = nil, make(chan struct{})
}

// handler tells the record what the watch shows.
func (b *Balancer) handler(r *ledger) cache.ResourceEventHandler {
	see := func(object any) {
		if service, ok := object.(*corev1.Service); ok {
			b.mu.Lock()
			r.observe(service, true)
			b.asksNow(r, service)
			b.mu.Unlock()
			b.touch()
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
				b.mu.Lock()
				r.forget(service.UID)
				delete(b.waiting, service.UID)
				b.mu.Unlock()
				b.touch()
			}
		},
	}
}

// asksNow brings a request that was refused up to date with its Service: what it asks for, and by which labels pools choose it, may
// have changed. The controller ensures it again by itself for the former only.
func (b *Balancer) asksNow(r *ledger, service *corev1.Service) {
	refused, found := b.waiting[service.UID]
	if !found {
		return
	}
	if request, err := requestOf(service, refused.NamespaceLabels); err == nil {
		request.Held = r.held(service)
		b.waiting[service.UID] = request
	}
}

// SetPools replaces the pools. Services keep the addresses that they have; those whose address is in no pool any more are told,
// and those that were refused may get one now. It fails if the pools are not valid, and then the old ones stay.
func (b *Balancer) SetPools(pools []config.Pool) error {
	compiled, err := pool.New(pools)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.pools = compiled
	if b.ledger != nil {
		b.ledger.change(compiled)
	}
	b.mu.Unlock()
	b.touch()
	return nil
}

// RetryLoadBalancers calls retry with each Service that was refused and would get its addresses now, until ctx ends. See
// provider.Capabilities.
func (b *Balancer) RetryLoadBalancers(ctx context.Context, retry func(types.NamespacedName)) {
	b.listen(retry)
	b.touch()
	<-ctx.Done()
	b.listen(nil)
}

func (b *Balancer) listen(retry func(types.NamespacedName)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retry = retry
}

// touch has Run look for what follows from a change.
func (b *Balancer) touch() {
	select {
	case b.dirty <- struct{}{}:
	default:
	}
}

// lock waits until the record is complete and returns it, with the lock held. The error says why it is not.
func (b *Balancer) lock(ctx context.Context) (*ledger, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for {
		b.mu.Lock()
		ready := b.ready
		select {
		case <-ready:
			return b.ledger, nil
		default:
		}
		b.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			b.mu.Lock()
			problem := b.problem
			b.mu.Unlock()
			if problem == nil {
				problem = errors.New("the provider is starting, or does not lead")
			}
			return nil, fmt.Errorf("it is not known yet which Services have which addresses (%w): %w", ctx.Err(), problem)
		}
	}
}
