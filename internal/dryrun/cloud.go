package dryrun

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/names"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

// KnownLater stands in for what only the cloud can say once it has made something: the address of a load balancer.
const KnownLater = "known-after-apply.invalid"

// Cloud returns the plugin without its means to change anything. What a controller would have it do is recorded, and counts as done.
//
// What a plugin does by itself, after Initialize, is beyond reach; its requests to the API server are held by ReadOnly.
func Cloud(of cloudprovider.Interface, recorder *Recorder) cloudprovider.Interface {
	return &recordingCloud{Interface: of, recorder: recorder}
}

type recordingCloud struct {
	cloudprovider.Interface
	recorder *Recorder
}

var _ provider.Capable = (*recordingCloud)(nil)

// Capabilities are the capabilities that read. Changes go through the plain interfaces, where they are recorded.
func (c *recordingCloud) Capabilities() provider.Capabilities {
	offered := provider.CapabilitiesOf(c.Interface)
	return provider.Capabilities{
		ProviderIDSchemes: offered.ProviderIDSchemes,
		ListInstances:     offered.ListInstances,
		WatchInstances:    offered.WatchInstances,
		StandbySafe:       offered.StandbySafe,
		ListLoadBalancers: offered.ListLoadBalancers,
		SelectsByLabels:   offered.SelectsByLabels,
		MaxRoutes:         offered.MaxRoutes,
		ReplaceRoute:      c.replaceRoute(offered),
	}
}

// replaceRoute records replacements where the plugin can replace: elsewhere the plan is another one.
func (c *recordingCloud) replaceRoute(offered provider.Capabilities) func(context.Context, string, *cloudprovider.Route, *cloudprovider.Route) error {
	if offered.ReplaceRoute == nil {
		return nil
	}
	return func(ctx context.Context, _ string, old, replacement *cloudprovider.Route) error {
		c.recorder.record(routeIntent(ctx, "ReplaceRoute", plan.Alters, replacement, []plan.Change{{
			Path: "/targetNode", From: string(old.TargetNode), To: string(replacement.TargetNode),
		}}), nil)
		return nil
	}
}

func (c *recordingCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	plugin, offered := c.Interface.LoadBalancer()
	if !offered || plugin == nil {
		return nil, false
	}
	return &recordingBalancer{LoadBalancer: plugin, recorder: c.recorder,
		balancers: &balancerList{list: provider.CapabilitiesOf(c.Interface).ListLoadBalancers}}, true
}

func (c *recordingCloud) Routes() (cloudprovider.Routes, bool) {
	plugin, offered := c.Interface.Routes()
	if !offered || plugin == nil {
		return nil, false
	}
	return &recordingRoutes{Routes: plugin, recorder: c.recorder}, true
}

// recordingBalancer reads through the plugin and changes nothing.
type recordingBalancer struct {
	cloudprovider.LoadBalancer
	recorder  *Recorder
	balancers *balancerList
}

// EnsureLoadBalancer returns what there is. Where nothing is yet, the address is KnownLater. A load balancer that is merely refreshed is
// compared with what there is; if nothing differs, nothing is recorded.
func (b *recordingBalancer) EnsureLoadBalancer(ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	status, exists, err := b.GetLoadBalancer(ctx, clusterName, service)
	if err != nil {
		return nil, fmt.Errorf("looking for the load balancer: %w", err)
	}
	effect, changes := plan.Creates, targets(nodes)
	if exists {
		effect = plan.Alters
	}
	if exists && status != nil && refreshes(ctx) {
		listed, err := b.balancers.find(ctx, clusterName, service.UID)
		if err != nil {
			return nil, err
		}
		differ, notCompared := compareBalancer(service, nodes, status, listed)
		if len(differ) == 0 {
			b.recorder.agrees(types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, notCompared)
			return status, nil
		}
		changes = differ
		ctx = Because(ctx, fmt.Sprintf("%s; not compared: %s", reason(ctx), strings.Join(notCompared, ", ")))
	}
	b.recorder.record(b.intent(ctx, "EnsureLoadBalancer", effect, service, changes), nil)
	if exists && status != nil {
		return status, nil
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: KnownLater}}}, nil
}

// UpdateLoadBalancer records the targets.
func (b *recordingBalancer) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	b.recorder.record(b.intent(ctx, "UpdateLoadBalancer", plan.Alters, service, targets(nodes)), nil)
	return nil
}

// EnsureLoadBalancerDeleted records the deletion.
func (b *recordingBalancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	b.recorder.record(b.intent(ctx, "EnsureLoadBalancerDeleted", plan.Deletes, service, nil), nil)
	return nil
}

func (b *recordingBalancer) intent(ctx context.Context, verb string, effect plan.Effect, service *corev1.Service, changes []plan.Change,
) plan.Intent {
	return plan.Intent{
		Controller: names.ServiceLBController, Where: plan.TheCloud, Verb: verb, Effect: effect, Kind: "Service",
		Namespace: service.Namespace, Name: service.Name, Why: reason(ctx), Changes: changes,
	}
}

// targets shows the nodes that a load balancer would have.
func targets(nodes []*corev1.Node) []plan.Change {
	return []plan.Change{{Path: "/targets", To: namesOf(nodes)}}
}

func namesOf(nodes []*corev1.Node) []types.NodeName {
	names := make([]types.NodeName, len(nodes))
	for i, node := range nodes {
		names[i] = types.NodeName(node.Name)
	}
	return names
}

// recordingRoutes lists routes through the plugin and changes none.
type recordingRoutes struct {
	cloudprovider.Routes
	recorder *Recorder
}

// CreateRoute records the route.
func (r *recordingRoutes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	r.recorder.record(routeIntent(ctx, "CreateRoute", plan.Creates, route, []plan.Change{{Path: "/targetNode", To: string(route.TargetNode)}}), nil)
	return nil
}

// DeleteRoute records the deletion.
func (r *recordingRoutes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	gone := []plan.Change{{Path: "/targetNode", From: string(route.TargetNode)}}
	r.recorder.record(routeIntent(ctx, "DeleteRoute", plan.Deletes, route, gone), nil)
	return nil
}

func routeIntent(ctx context.Context, verb string, effect plan.Effect, route *cloudprovider.Route, changes []plan.Change) plan.Intent {
	return plan.Intent{
		Controller: names.NodeRouteController, Where: plan.TheCloud, Verb: verb, Effect: effect, Kind: "Route", Name: route.DestinationCIDR,
		Why: reason(ctx), Changes: changes,
	}
}

// refreshKey is the key of Refreshing in a context.
type refreshKey struct{}

// Refreshing returns a context that says that a load balancer is ensured only because this process has not done so yet: nothing is known
// to have changed. Under --dry-run such a call is compared with what there is, and is no intent if nothing differs.
func Refreshing(ctx context.Context) context.Context {
	return context.WithValue(ctx, refreshKey{}, true)
}

func refreshes(ctx context.Context) bool {
	refreshing, _ := ctx.Value(refreshKey{}).(bool)
	return refreshing
}

// What of a load balancer may not have been compared. What its annotations and other fields ask for, only the provider knows.
const (
	notTargets   = "targets"
	notListeners = "listeners"
	notSettings  = "what annotations and other fields of the Service ask for"
)

// balancerList lists load balancers, and reuses the list for as long as a cache may lag.
type balancerList struct {
	list func(context.Context, string) ([]provider.LoadBalancer, error)

	mu     sync.Mutex
	at     time.Time
	listed []provider.LoadBalancer
}

// find returns the load balancer of a Service as it is listed. Nil: it is not listed, or the provider cannot list.
func (l *balancerList) find(ctx context.Context, clusterName string, service types.UID) (*provider.LoadBalancer, error) {
	if l.list == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || time.Since(l.at) > kit.MaxCacheLag {
		listed, err := l.list(ctx, clusterName)
		if err != nil {
			return nil, fmt.Errorf("listing load balancers: %w", err)
		}
		l.listed, l.at = listed, time.Now()
	}
	if at := slices.IndexFunc(l.listed, func(one provider.LoadBalancer) bool { return one.ServiceUID == service }); at >= 0 {
		return &l.listed[at], nil
	}
	return nil, nil
}

// compareBalancer compares the load balancer of a Service with the Service's status and targets. Status is the result of GetLoadBalancer; listed is
// nil where the load balancer is not listed.
func compareBalancer(service *corev1.Service, nodes []*corev1.Node, status *corev1.LoadBalancerStatus, listed *provider.LoadBalancer,
) (differ []plan.Change, notCompared []string) {
	if shown := service.Status.LoadBalancer.Ingress; !equality.Semantic.DeepEqual(addressesOf(shown), addressesOf(status.Ingress)) {
		differ = append(differ, plan.Change{Path: "/status/loadBalancer/ingress", From: addressesOf(shown), To: addressesOf(status.Ingress)})
	}
	if listed == nil || listed.Targets == nil {
		notCompared = append(notCompared, notTargets)
	} else if has, wants := sortedNames(listed.Targets), sortedNames(namesOf(nodes)); !slices.Equal(has, wants) {
		differ = append(differ, plan.Change{Path: "/targets", From: has, To: wants})
	}
	if listed == nil || listed.Ports == nil {
		notCompared = append(notCompared, notListeners)
	} else if has, wants := Listeners(listed.Ports), Listeners(service.Spec.Ports); !slices.Equal(has, wants) {
		differ = append(differ, plan.Change{Path: "/listeners", From: has, To: wants})
	}
	return differ, append(notCompared, notSettings)
}

// addressesOf are the addresses of a status as the API server shows them, which fills in the mode of an IP.
func addressesOf(ingress []corev1.LoadBalancerIngress) []string {
	addresses := []string{}
	for _, entry := range ingress {
		address := entry.Hostname + entry.IP
		if entry.IPMode != nil && *entry.IPMode != corev1.LoadBalancerIPModeVIP {
			address += " " + string(*entry.IPMode)
		}
		addresses = append(addresses, address)
	}
	return addresses
}

func sortedNames(nodes []types.NodeName) []string {
	names := []string{}
	for _, node := range nodes {
		names = append(names, string(node))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Listeners are the ports of a load balancer, in an order of their own, by which two can be compared.
func Listeners(ports []corev1.ServicePort) []string {
	result := []string{}
	for _, port := range ports {
		result = append(result, fmt.Sprintf("%s %d to %d", port.Protocol, port.Port, port.NodePort))
	}
	slices.Sort(result)
	return result
}

// agrees keeps that nothing differs of the load balancer of a Service, and what was not compared. An intent for it ends that.
func (r *Recorder) agrees(service types.NamespacedName, notCompared []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.compared[service] = notCompared
}

// Compared returns of how many load balancers was found that nothing differs. Nil: of none.
func (r *Recorder) Compared() *plan.Compared {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.compared) == 0 {
		return nil
	}
	not := map[string]bool{}
	for _, what := range r.compared {
		for _, name := range what {
			not[name] = true
		}
	}
	return &plan.Compared{LoadBalancers: len(r.compared), NotCompared: slices.Sorted(maps.Keys(not))}
}
