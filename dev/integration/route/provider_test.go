package route_test

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
)

// limited is the simulated cloud's provider with less than it offers, or with addresses, which the cloud itself knows nothing
// of: some plugins put the addresses of a route's target into their own list of routes.
type limited struct {
	*sim.Cloud
	cannotReplace, addressed, withoutRoutes bool
	// asked is closed when a controller has asked for the routes.
	asked chan struct{}

	mu        sync.Mutex
	addresses map[string][]corev1.NodeAddress
	calls     []string
}

// Capabilities leaves out what the plugin is not to have.
func (l *limited) Capabilities() provider.Capabilities {
	capabilities := provider.CapabilitiesOf(l.Cloud)
	replace := capabilities.ReplaceRoute
	capabilities.ReplaceRoute = nil
	if !l.cannotReplace {
		capabilities.ReplaceRoute = func(ctx context.Context, clusterName string, old, replacement *cloudprovider.Route) error {
			l.note("replace", replacement.DestinationCIDR, replacement.TargetNodeAddresses)
			return replace(ctx, clusterName, old, replacement)
		}
	}
	return capabilities
}

// Routes are those of the simulated cloud, or none.
func (l *limited) Routes() (cloudprovider.Routes, bool) {
	if l.withoutRoutes {
		close(l.asked)
		return nil, false
	}
	routes, _ := l.Cloud.Routes()
	return addressedRoutes{Routes: routes, limited: l}, true
}

func (l *limited) note(call, cidr string, addresses []corev1.NodeAddress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addresses == nil {
		l.addresses = map[string][]corev1.NodeAddress{}
	}
	l.addresses[cidr] = slices.Clone(addresses)
	l.calls = append(l.calls, call)
}

func (l *limited) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// address returns the first address of the target of a route.
func (l *limited) address(cidr string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.addresses[cidr]) == 0 {
		return ""
	}
	return l.addresses[cidr][0].Address
}

type addressedRoutes struct {
	cloudprovider.Routes
	limited *limited
}

func (a addressedRoutes) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	routes, err := a.Routes.ListRoutes(ctx, clusterName)
	a.limited.mu.Lock()
	defer a.limited.mu.Unlock()
	for _, r := range routes {
		r.EnableNodeAddresses = a.limited.addressed
		r.TargetNodeAddresses = a.limited.addresses[r.DestinationCIDR]
	}
	return routes, err
}

func (a addressedRoutes) CreateRoute(ctx context.Context, clusterName, hint string, r *cloudprovider.Route) error {
	a.limited.note("create", r.DestinationCIDR, r.TargetNodeAddresses)
	return a.Routes.CreateRoute(ctx, clusterName, hint, r)
}

func (a addressedRoutes) DeleteRoute(ctx context.Context, clusterName string, r *cloudprovider.Route) error {
	a.limited.note("delete", r.DestinationCIDR, nil)
	return a.Routes.DeleteRoute(ctx, clusterName, r)
}
