package conformance_test

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/provider/conformance"
	"github.com/mooring-ccm/mooring/providers/sim"
)

// mutant is the provider of a simulated cloud, wrong in the way of those of its functions that are set.
type mutant struct {
	*sim.Cloud
	subject *conformance.Subject

	name         func() string
	capabilities func(*provider.Capabilities)

	v2       wrongV2
	legacy   wrongLegacy
	zones    wrongZones
	balancer wrongBalancer
	route    wrongRoutes

	// second is closed by the second of two calls that the mutant lets meet.
	second chan struct{}
	// mu guards what follows.
	mu      sync.Mutex
	calls   int
	created []conformance.Instance
	ensured []*v1.Service
	named   map[types.NodeName]string
	running int
}

// count returns how often it was called before, counting from 1.
func (m *mutant) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	return m.calls
}

// overlaps reports whether another call is under way. A call that finds none waits a moment for one.
func (m *mutant) overlaps(ctx context.Context) bool {
	m.mu.Lock()
	m.running++
	alone := m.running == 1
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.running--
	}()
	if alone {
		moment, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		<-moment.Done()
	}
	return !alone
}

// meet lets the first call wait for the second, and reports which one this is.
func (m *mutant) meet(ctx context.Context) int {
	call := m.count()
	switch call {
	case 1:
		select {
		case <-m.second:
		case <-ctx.Done():
		}
	case 2:
		close(m.second)
	}
	return call
}

func (m *mutant) ProviderName() string {
	if m.name != nil {
		return m.name()
	}
	return m.Cloud.ProviderName()
}

func (m *mutant) Capabilities() provider.Capabilities {
	capabilities := m.Cloud.Capabilities()
	capabilities.Limits.InFlight = 8
	if m.capabilities != nil {
		m.capabilities(&capabilities)
	}
	return capabilities
}

func (m *mutant) InstancesV2() (cloudprovider.InstancesV2, bool) {
	wrong := m.v2
	wrong.InstancesV2, _ = m.Cloud.InstancesV2()
	return wrong, true
}

func (m *mutant) Instances() (cloudprovider.Instances, bool) {
	wrong := m.legacy
	wrong.Instances, _ = m.Cloud.Instances()
	return wrong, true
}

func (m *mutant) Zones() (cloudprovider.Zones, bool) {
	wrong := m.zones
	wrong.Zones, _ = m.Cloud.Zones()
	return wrong, true
}

func (m *mutant) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	wrong := m.balancer
	wrong.LoadBalancer, _ = m.Cloud.LoadBalancer()
	return wrong, true
}

func (m *mutant) Routes() (cloudprovider.Routes, bool) {
	wrong := m.route
	wrong.Routes, _ = m.Cloud.Routes()
	return wrong, true
}

type wrongV2 struct {
	cloudprovider.InstancesV2
	exists   func(ctx context.Context, right cloudprovider.InstancesV2, node *v1.Node) (bool, error)
	shutdown func(ctx context.Context, right cloudprovider.InstancesV2, node *v1.Node) (bool, error)
	metadata func(ctx context.Context, right cloudprovider.InstancesV2, node *v1.Node) (*cloudprovider.InstanceMetadata, error)
}

func (w wrongV2) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	if w.exists != nil {
		return w.exists(ctx, w.InstancesV2, node)
	}
	return w.InstancesV2.InstanceExists(ctx, node)
}

func (w wrongV2) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	if w.shutdown != nil {
		return w.shutdown(ctx, w.InstancesV2, node)
	}
	return w.InstancesV2.InstanceShutdown(ctx, node)
}

func (w wrongV2) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	if w.metadata != nil {
		return w.metadata(ctx, w.InstancesV2, node)
	}
	return w.InstancesV2.InstanceMetadata(ctx, node)
}

type wrongLegacy struct {
	cloudprovider.Instances
	exists    func(ctx context.Context, right cloudprovider.Instances, providerID string) (bool, error)
	id        func(id string, err error) (string, error)
	typeByID  func() string
	addresses func([]v1.NodeAddress) []v1.NodeAddress
}

func (w wrongLegacy) InstanceExistsByProviderID(ctx context.Context, providerID string) (bool, error) {
	if w.exists != nil {
		return w.exists(ctx, w.Instances, providerID)
	}
	return w.Instances.InstanceExistsByProviderID(ctx, providerID)
}

func (w wrongLegacy) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	id, err := w.Instances.InstanceID(ctx, name)
	if w.id != nil {
		return w.id(id, err)
	}
	return id, err
}

func (w wrongLegacy) InstanceTypeByProviderID(ctx context.Context, providerID string) (string, error) {
	if w.typeByID != nil {
		return w.typeByID(), nil
	}
	return w.Instances.InstanceTypeByProviderID(ctx, providerID)
}

func (w wrongLegacy) NodeAddressesByProviderID(ctx context.Context, providerID string) ([]v1.NodeAddress, error) {
	addresses, err := w.Instances.NodeAddressesByProviderID(ctx, providerID)
	if w.addresses != nil {
		addresses = w.addresses(addresses)
	}
	return addresses, err
}

type wrongZones struct {
	cloudprovider.Zones
	region string
}

func (w wrongZones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	zone, err := w.Zones.GetZoneByNodeName(ctx, name)
	if w.region != "" {
		zone.Region = w.region
	}
	return zone, err
}

// wrongBalancer changes what its methods are given, do, or return.
type wrongBalancer struct {
	cloudprovider.LoadBalancer
	name    string
	service func(*v1.Service) *v1.Service
	get     func(ctx context.Context, right cloudprovider.LoadBalancer, cluster string, service *v1.Service,
	) (*v1.LoadBalancerStatus, bool, error)
	ensure func(ctx context.Context, right cloudprovider.LoadBalancer, cluster string, service *v1.Service, nodes []*v1.Node,
	) (*v1.LoadBalancerStatus, error)
	update func(ctx context.Context, right cloudprovider.LoadBalancer, cluster string, service *v1.Service, nodes []*v1.Node) error
	remove func(ctx context.Context, right cloudprovider.LoadBalancer, cluster string, service *v1.Service) error
}

func (w wrongBalancer) of(service *v1.Service) *v1.Service {
	if w.service != nil {
		return w.service(service)
	}
	return service
}

func (w wrongBalancer) GetLoadBalancerName(ctx context.Context, cluster string, service *v1.Service) string {
	if w.name != "" {
		return w.name
	}
	return w.LoadBalancer.GetLoadBalancerName(ctx, cluster, service)
}

func (w wrongBalancer) GetLoadBalancer(ctx context.Context, cluster string, service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	if w.get != nil {
		return w.get(ctx, w.LoadBalancer, cluster, service)
	}
	return w.LoadBalancer.GetLoadBalancer(ctx, cluster, w.of(service))
}

func (w wrongBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	if w.ensure != nil {
		return w.ensure(ctx, w.LoadBalancer, cluster, service, nodes)
	}
	return w.LoadBalancer.EnsureLoadBalancer(ctx, cluster, w.of(service), nodes)
}

func (w wrongBalancer) UpdateLoadBalancer(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node) error {
	if w.update != nil {
		return w.update(ctx, w.LoadBalancer, cluster, service, nodes)
	}
	return w.LoadBalancer.UpdateLoadBalancer(ctx, cluster, w.of(service), nodes)
}

func (w wrongBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *v1.Service) error {
	if w.remove != nil {
		return w.remove(ctx, w.LoadBalancer, cluster, service)
	}
	return w.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, w.of(service))
}

type wrongRoutes struct {
	cloudprovider.Routes
	list   func(ctx context.Context, right cloudprovider.Routes, cluster string) ([]*cloudprovider.Route, error)
	create func(ctx context.Context, right cloudprovider.Routes, cluster, hint string, route *cloudprovider.Route) error
	remove func(ctx context.Context, right cloudprovider.Routes, cluster string, route *cloudprovider.Route) error
}

func (w wrongRoutes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	if w.list != nil {
		return w.list(ctx, w.Routes, cluster)
	}
	return w.Routes.ListRoutes(ctx, cluster)
}

func (w wrongRoutes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	if w.create != nil {
		return w.create(ctx, w.Routes, cluster, hint, route)
	}
	return w.Routes.CreateRoute(ctx, cluster, hint, route)
}

func (w wrongRoutes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	if w.remove != nil {
		return w.remove(ctx, w.Routes, cluster, route)
	}
	return w.Routes.DeleteRoute(ctx, cluster, route)
}
