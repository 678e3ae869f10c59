package dryrun

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

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
	} else if has, wants := sortedNames(listed.Targets), targetNames(nodes); !slices.Equal(has, wants) {
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

func targetNames(nodes []*corev1.Node) []string {
	names := []string{}
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	slices.Sort(names)
	return names
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
