package double

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
)

// cloudZone is the zone of all instances, and cloudRegion their region.
const (
	cloudZone   = "cloud-zone"
	cloudRegion = "region"
	// instanceType is the type of all instances.
	instanceType = "small"
)

var (
	errGone  = errors.New("the cloud has no such instance")
	errQuota = errors.New("quota exceeded: the project has no room for one more")
)

// address returns a stable number for a name and a count.
func address(name string, count int) (byte, byte) {
	sum := fnv.New32a()
	_, _ = fmt.Fprint(sum, name, count) // a hash takes everything
	return byte(sum.Sum32() >> 8), byte(sum.Sum32())
}

// generationMark is before the generation in the provider ID of an instance that has taken over a name.
const generationMark = "-generation-"

// providerID is how the cloud spells the ID of an instance.
func providerID(node string, generation int) string {
	return ProviderName + "://" + instanceID(node, generation)
}

func instanceID(node string, generation int) string {
	if generation == 0 {
		return "zone/" + node
	}
	return "zone/" + node + generationMark + strconv.Itoa(generation)
}

// generation returns the generation in a provider ID, however it is spelled.
func generation(id string) int {
	_, text, _ := strings.Cut(strings.ToLower(id), generationMark)
	number, _ := strconv.Atoi(text) // zero without one
	return number
}

// nodeOf returns the name in a provider ID, however it is spelled.
func nodeOf(id string) string {
	name, _, _ := strings.Cut(strings.ToLower(nameIn(id)), generationMark)
	return name
}

// addressesOf are the addresses of an instance.
func addressesOf(node string, generation int, renamed bool) []corev1.NodeAddress {
	high, low := address(node, -generation)
	name := node
	if renamed {
		name = "renamed-" + node
	}
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.1.%d.%d", high, low)},
		{Type: corev1.NodeExternalIP, Address: fmt.Sprintf("198.51.%d.%d", high, low)},
		{Type: corev1.NodeHostName, Address: name},
	}
}

// lag is how late an answer is. The character says whether it is a list or about one object.
func (w *World) lag(character draw.Character, dice *rand.Rand) time.Duration {
	plugin := w.draw.Plugin
	if plugin.Has(character) || plugin.Has(draw.Replicas) && dice.IntN(2) == 0 {
		return plugin.Lag
	}
	return 0
}

// look finds the instance of a provider ID, or of a name without one, as it was a while ago. It returns the generation. The lock is held.
func (w *World) look(node, id string, lag time.Duration) (number int, found bool) {
	machine, then := w.instances[node], w.now()-lag
	if machine == nil || w.denied(node) {
		return 0, false
	}
	number = machine.generation
	if machine.made > then {
		number--
	}
	switch {
	case number < 0: // it was not there
	case machine.deleted && machine.gone <= then:
	case id == "" && machine.renamed:
	case id != "" && generation(id) != number:
	default:
		return number, true
	}
	return 0, false
}

// denied reports whether the cloud denies what exists: for the time of a silent kubelet, and once for others. The lock is held.
func (w *World) denied(node string) bool {
	if !w.draw.Plugin.Has(draw.Denying) {
		return false
	}
	from := draw.Settle + time.Duration(draw.Dice(w.draw.Seed, "denial", node).IntN(8*60))*time.Second
	return from <= w.now() && w.now() < from+w.draw.Plugin.Lag
}

type instances struct{ *plugin }

// InstanceExists implements cloudprovider.InstancesV2.
func (i instances) InstanceExists(ctx context.Context, node *corev1.Node) (exists bool, err error) {
	name, id := node.Name, node.Spec.ProviderID
	err = i.call(ctx, "InstanceExists", name, arguments{node: node, answers: answers{is: &exists}}, func(dice *rand.Rand) error {
		_, exists = i.world.look(name, id, i.world.lag(draw.LaggingAnswers, dice))
		return nil
	})
	return exists, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (i instances) InstanceShutdown(ctx context.Context, node *corev1.Node) (off bool, err error) {
	name := node.Name
	err = i.call(ctx, "InstanceShutdown", name, arguments{node: node, answers: answers{is: &off}}, func(dice *rand.Rand) error {
		off = i.world.draw.Plugin.Has(draw.AlternatingPower) && dice.IntN(2) == 0
		return nil
	})
	return off, err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (i instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (metadata *cloudprovider.InstanceMetadata, err error) {
	name, id := node.Name, node.Spec.ProviderID
	err = i.call(ctx, "InstanceMetadata", name, arguments{node: node}, func(dice *rand.Rand) error {
		plugin := i.world.draw.Plugin
		number, found := i.world.look(name, id, i.world.lag(draw.LaggingAnswers, dice))
		if !found {
			return errGone
		}
		answer := i.world.metadata(name, number, dice)
		metadata = &answer
		if plugin.Has(draw.PartialSuccess) && i.world.fails(dice) {
			metadata.NodeAddresses = nil
		}
		if plugin.Has(draw.Echoing) {
			metadata.AdditionalLabels = node.Labels
			if sameAddresses(node, i.world.instances[name]) {
				metadata.NodeAddresses = node.Status.Addresses
			}
		}
		return nil
	})
	return metadata, err
}

// metadata is what the cloud knows of an instance. The lock is held.
func (w *World) metadata(name string, number int, dice *rand.Rand) cloudprovider.InstanceMetadata {
	addresses, id := addressesOf(name, number, w.instances[name].renamed), providerID(name, number)
	if w.draw.Plugin.Has(draw.AnyOrder) {
		dice.Shuffle(len(addresses), func(a, b int) { addresses[a], addresses[b] = addresses[b], addresses[a] })
	}
	if w.draw.Plugin.Has(draw.OtherSpelling) {
		id = []string{id, strings.ToUpper(id[:len(ProviderName)]) + id[len(ProviderName):], ProviderName + ":///zone/" + strings.ToUpper(nameIn(id))}[dice.IntN(3)]
	}
	return cloudprovider.InstanceMetadata{ProviderID: id, InstanceType: instanceType, Zone: cloudZone, Region: cloudRegion, NodeAddresses: addresses}
}

// nameIn is the last part of a provider ID.
func nameIn(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

type loadBalancer struct{ *plugin }

// key returns the name of a Service, which identifies its load balancer.
func key(service *corev1.Service) string { return service.Name }

// find returns the load balancer of a Service, unless the cloud does not find it. It notes whether it denies one that is there. The lock is held.
func (w *World) find(name string, denied *bool) *balancer {
	one := w.balancers[name]
	if one == nil || (one.gone > 0 && one.gone <= w.now()) {
		return nil
	}
	if w.draw.Plugin.Has(draw.BalancerNotFound) {
		from := draw.Settle + time.Duration(draw.Dice(w.draw.Seed, "balancer", name).IntN(8*60))*time.Second
		if *denied = one.made+5*time.Second > w.now() || (from <= w.now() && w.now() < from+w.draw.Plugin.Lag); *denied {
			return nil
		}
	}
	return one
}

func (b *balancer) status() *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: b.address}}}
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (l loadBalancer) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return key(service)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (l loadBalancer) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (status *corev1.LoadBalancerStatus, exists bool, err error) {
	name, denied := key(service), false
	err = l.call(ctx, "GetLoadBalancer", name, arguments{service: service, answers: answers{is: &exists, denied: &denied}}, func(dice *rand.Rand) error {
		if one := l.world.find(name, &denied); one != nil && one.made+l.world.lag(draw.LaggingAnswers, dice) <= l.world.now() {
			status, exists = one.status(), true
		}
		return nil
	})
	return status, exists, err
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (l loadBalancer) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (status *corev1.LoadBalancerStatus, err error) {
	name, denied := key(service), false
	given := arguments{service: service, nodes: nodes, answers: answers{status: &status, denied: &denied}}
	err = l.call(ctx, "EnsureLoadBalancer", name, given, func(*rand.Rand) error {
		w := l.world
		one := w.find(name, &denied)
		if one == nil && w.full(len(w.balancers), len(w.draw.Services)) {
			return errQuota
		}
		if one == nil {
			w.record.Created[name]++
			high, low := address(name, w.record.Created[name])
			one = &balancer{address: fmt.Sprintf("203.0.%d.%d", high, low), made: w.now()}
			w.balancers[name] = one
		}
		if status = one.status(); w.draw.Plugin.Has(draw.Echoing) {
			service.Status.LoadBalancer = *status
			status = &service.Status.LoadBalancer
		}
		return nil
	})
	return status, err
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (l loadBalancer) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	name, denied := key(service), false
	return l.call(ctx, "UpdateLoadBalancer", name, arguments{service: service, nodes: nodes, answers: answers{denied: &denied}}, func(*rand.Rand) error {
		if l.world.find(name, &denied) == nil {
			return errors.New("the cloud has no such load balancer")
		}
		return nil
	})
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (l loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	name, w := key(service), l.world
	w.mu.Lock()
	wanted := live(w.services[name]) // what becomes of it while the call is under way stops no call
	w.mu.Unlock()
	return l.call(ctx, "EnsureLoadBalancerDeleted", name, arguments{service: service}, func(*rand.Rand) error {
		if wanted && live(w.services[name]) {
			w.fault("5-deleted", name, "the manager deleted the load balancer of a Service that exists")
		}
		one := w.balancers[name]
		switch {
		case one == nil:
		case w.draw.Plugin.Has(draw.EventualDeletion):
			one.gone = w.now() + w.draw.Plugin.Lag
		default:
			delete(w.balancers, name)
		}
		return nil
	})
}

// full reports whether the cloud has no room for one more: for half of what is drawn until the disturbances end. The lock is held.
func (w *World) full(count, drawn int) bool {
	return w.draw.Plugin.Has(draw.Quota) && w.now() < draw.Disturbed && count >= max(1, drawn/2)
}

type router struct{ *plugin }

// omitted reports whether lists come from a replica that has lost a route for a while, after it had shown it. The lock is held.
func (w *World) omitted(node string, shown, lag time.Duration) bool {
	dice := draw.Dice(w.draw.Seed, "omission", node)
	from := draw.Settle + time.Duration(dice.IntN(8*60))*time.Second
	return dice.IntN(3) == 0 && shown <= from && from <= w.now() && w.now() < from+lag
}

// ListRoutes implements cloudprovider.Routes.
func (r router) ListRoutes(ctx context.Context, _ string) (routes []*cloudprovider.Route, err error) {
	err = r.call(ctx, "ListRoutes", "", arguments{answers: answers{routes: &routes}}, func(dice *rand.Rand) error {
		w := r.world
		lag := w.lag(draw.Lagging, dice)
		if w.draw.Plugin.Has(draw.EmptyPages) && w.fails(dice) {
			return nil
		}
		for _, node := range slices.Sorted(maps.Keys(w.routes)) {
			one := w.routes[node]
			if shown := one.made+lag <= w.now() && (one.deleted == 0 || one.deleted+lag > w.now()); shown && !w.omitted(node, one.made+lag, lag) {
				copied := one.route
				routes = append(routes, &copied)
			}
		}
		return nil
	})
	for _, one := range routes {
		r.shows(string(one.TargetNode), err)
	}
	return routes, err
}

// shows notes that a call which has returned shows a route to the manager that is judged.
func (r router) shows(node string, err error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if one := r.world.routeOf(node, 0); one != nil && err == nil && !r.other {
		one.shown = true
	}
}

// CreateRoute implements cloudprovider.Routes.
func (r router) CreateRoute(ctx context.Context, _, hint string, given *cloudprovider.Route) error {
	name := string(given.TargetNode)
	err := r.call(ctx, "CreateRoute", name, arguments{}, func(*rand.Rand) error {
		w := r.world
		if w.routeOf(name, 0) != nil {
			return nil // it is there already, and the cloud says that all is well
		}
		if w.full(len(w.routes), len(w.draw.Nodes)) {
			return errQuota
		}
		w.routes[name] = &route{made: w.now(), route: cloudprovider.Route{
			Name: hint, TargetNode: types.NodeName(name), DestinationCIDR: given.DestinationCIDR,
			TargetNodeAddresses: slices.Clone(given.TargetNodeAddresses),
		}}
		return nil
	})
	r.shows(name, err)
	return err
}

// DeleteRoute implements cloudprovider.Routes.
func (r router) DeleteRoute(ctx context.Context, _ string, given *cloudprovider.Route) error {
	name := string(given.TargetNode)
	return r.call(ctx, "DeleteRoute", name, arguments{}, func(*rand.Rand) error {
		if one := r.world.routeOf(name, 0); one != nil {
			one.deleted = r.world.now()
		}
		return nil
	})
}
