// Package octavia is the load balancers of OpenStack: observe, desired, plan, apply. A load balancer is created by one call with all that is
// below it. No call waits for octavia: while it works on a load balancer the answer is "come again". What the package makes has the names
// and tags of cloud-provider-openstack, whose load balancers it takes over and which takes over its own.
package octavia

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// Writes is how many changes octavia bears at once, for different load balancers.
const Writes = 8

// Clients returns the clients of octavia and of neutron. It is called before each operation, so credentials may change.
type Clients func(ctx context.Context) (octavia, neutron *gophercloud.ServiceClient, err error)

// Balancers is cloudprovider.LoadBalancer on octavia.
type Balancers struct {
	clients Clients
	options func() annotations.Options
	known   *members
	seen    *state
	current *current
	tagging *tagging
}

var _ cloudprovider.LoadBalancer = &Balancers{}

// New returns the load balancers of a project. It makes no call. The options are asked for before each operation, so they may change.
func New(clients Clients, options func() annotations.Options) *Balancers {
	defaulted := func() annotations.Options { return options().Defaulted() }
	return &Balancers{clients: clients, options: defaulted, known: &members{}, seen: newState(), current: &current{}, tagging: &tagging{}}
}

// services are the clients during one operation.
type services struct {
	api     api
	network network
	seen    *state
	lists   *lists
}

func (b *Balancers) services(ctx context.Context) (services, error) {
	octavia, neutron, err := b.clients(ctx)
	if err != nil {
		return services{}, err
	}
	lists, others := b.current.of(octavia, neutron)
	if others {
		b.seen.clear()
	}
	return services{api: api{client: octavia, driver: b.options().Driver(), tagging: b.tagging}, network: network{client: neutron, lists: lists}, seen: b.seen,
		lists: lists}, nil
}

// request reads a Service. Its error says all that is wrong with it.
func (b *Balancers) request(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node) (request, error) {
	options := b.options()
	settings, err := annotations.Parse(service, options)
	r := request{cluster: cluster, clusterUID: provider.ClusterUID(ctx), service: service, nodes: nodes, settings: settings, options: options}
	return r, provider.Terminal(err)
}

// GetLoadBalancerName returns the name that cloud-provider-openstack gives the Service's load balancer.
func (b *Balancers) GetLoadBalancerName(_ context.Context, clusterName string, service *v1.Service) string {
	return request{cluster: clusterName, service: service}.name()
}

// GetLoadBalancer returns what the Service's load balancer offers; exists is false if the Service has no load balancer. One that is being deleted exists. It
// costs two calls.
func (b *Balancers) GetLoadBalancer(ctx context.Context, clusterName string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	r, _ := b.request(ctx, clusterName, service, nil) // what is wrong with annotations does not matter here
	r.goes = true
	s, err := b.services(ctx)
	if err != nil {
		return nil, false, err
	}
	lb, _, serves, err := s.find(ctx, r)
	if err != nil || !serves {
		return nil, false, err
	}
	if lb.ProvisioningStatus != stateActive {
		return &v1.LoadBalancerStatus{}, true, nil
	}
	attached, err := s.network.ofPort(ctx, lb.VipPortID, s.lists.ages.toAdd)
	if err != nil {
		return nil, false, err
	}
	floating := ""
	if attached != nil {
		floating = attached.FloatingIP
	}
	vips, _ := vipsOf(lb)
	return statusOf(shownAddresses(vips, floating), r.settings.Hostname, r.settings.ProxyProtocol != "", r.options), true, nil
}

// find returns the load balancer of a Service, the first one that candidates returns, and what serving says of it.
func (s services) find(ctx context.Context, r request) (lb *loadbalancers.LoadBalancer, owns, serves bool, err error) {
	found, err := s.candidates(ctx, r)
	if err != nil || len(found) == 0 {
		return nil, false, false, err
	}
	owns, serves = serving(r, &found[0])
	return &found[0], owns, serves, nil
}

// serving reports whether a load balancer is the Service's own, and whether it serves the Service at all.
func serving(r request, lb *loadbalancers.LoadBalancer) (owns, serves bool) {
	named, claimed := r.namedBy(lb.Tags)
	owns = lb.Name == r.name() && (named || !claimed)
	return owns, owns || named || !claimed && slices.Contains(lb.Tags, r.name())
}

// EnsureLoadBalancer creates the Service's load balancer by one call, or changes what differs. While octavia works on it the error is an
// api.RetryError of k8s.io/cloud-provider, after one call at the most. Nothing to do costs five to six calls, of which other Services share two.
func (b *Balancers) EnsureLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	r, err := b.request(ctx, clusterName, service, nodes)
	if err != nil {
		return nil, err
	}
	want, err := desired(r)
	if err != nil {
		return nil, provider.Terminal(err)
	}
	s, err := b.services(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.candidates(ctx, r)
	if err != nil {
		return nil, err
	}
	lb, err := s.keepOne(ctx, r, found)
	switch {
	case err != nil:
		return nil, err
	case lb == nil && r.settings.LoadBalancerID != "":
		return nil, provider.Terminal(fmt.Errorf("load balancer %s does not exist: remove annotation %s to have one created",
			r.settings.LoadBalancerID, annotations.LoadBalancerID))
	case lb == nil:
		return nil, s.create(ctx, r, want)
	}
	return s.ensure(ctx, r, want, lb)
}

// create makes the load balancer. Its error is "come again" unless octavia refuses.
func (s services) create(ctx context.Context, r request, want model.LoadBalancer) error {
	err := s.placeVIP(ctx, r, &want)
	if err != nil {
		return err
	}
	if want.AdditionalVIPSubnetIDs, err = s.additionalSubnets(ctx, r); err != nil {
		return err
	}
	for _, listener := range want.Listeners { // members are where the VIP is unless something else is said
		for i := range listener.Pool.Members {
			listener.Pool.Members[i].SubnetID = or(listener.Pool.Members[i].SubnetID, want.VIPSubnetID)
		}
	}
	asked := creation(want, r.options.SerialCreate)
	lb, err := s.api.create(ctx, asked)
	if err != nil {
		return err
	}
	s.lists.outdate(lb.ID)
	s.seen.place(r, lb.ID)
	if listeners, whole := answered(lb, asked, r.name()); whole {
		s.seen.keepMade(lb.ID, listeners)
	}
	return again(fmt.Sprintf("octavia creates load balancer %s (%s)", lb.ID, lb.Name))
}

// ensure brings an existing load balancer to what is wanted, with its floating IP and security group.
func (s services) ensure(ctx context.Context, r request, want model.LoadBalancer, lb *loadbalancers.LoadBalancer) (*v1.LoadBalancerStatus, error) {
	if protocol := unsupportedProtocol(lb.Provider, want); protocol != "" {
		return nil, provider.Terminal(&UnsupportedError{Driver: lb.Provider, Field: fieldOf(protocol), Fault: "it has no protocol " + protocol})
	}
	owns, serves := serving(r, lb)
	if err := mayServe(r, lb, owns, serves); err != nil {
		return nil, err
	}
	if err := s.proceed(ctx, r, lb, owns); err != nil {
		return nil, err
	}
	keepClusterUID(&r, lb.Tags)
	want.Tags = withOwner(want.Tags, r.owner())
	have, known := s.seen.made(lb)
	if !known {
		var err error
		if have, err = s.look(ctx, lb, r.name(), asksHealthCheckPort(r)); err != nil {
			return nil, err
		}
	}
	if err := lacksFamily(r, have); err != nil {
		return nil, err
	}
	changes, err := plan(want, have, claimant{tag: r.name(), owns: owns})
	if err != nil {
		return nil, err
	}
	if len(changes) > 0 {
		s.seen.forget(lb.ID)
	}
	if err := s.apply(ctx, have, changes); err != nil {
		return nil, err
	}
	if r.options.ManageSecurityGroups {
		if err := s.network.ensureSecurityGroup(ctx, r, have); err != nil {
			return nil, err
		}
	}
	addresses, err := s.network.ensureAddresses(ctx, r, have, owns)
	if err != nil {
		return nil, err
	}
	return statusOf(addresses, r.settings.Hostname, r.settings.ProxyProtocol != "", r.options), nil
}

// keepClusterUID takes the cluster's UID from the tags where the caller does not know it.
func keepClusterUID(r *request, tags []string) {
	for _, owner := range model.Owners(tags) {
		if r.clusterUID == "" && owner.UID == r.service.UID {
			r.clusterUID = owner.ClusterUID
		}
	}
}

// withOwner returns tags with the owner's tag in place of all other tags of owners.
func withOwner(tags []string, owner model.Owner) []string {
	tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return len(model.Owners([]string{tag})) > 0 })
	return append(tags, owner.Tag())
}

// mayServe says why a Service may not have a load balancer that is not its own.
func mayServe(r request, lb *loadbalancers.LoadBalancer, owns, serves bool) error {
	sharers := model.Sharers(lb.Tags)
	switch {
	case owns:
		return nil
	case r.settings.Internal:
		return provider.Terminal(fmt.Errorf("an internal Service cannot share load balancer %s: it would be exposed with its owner", lb.ID))
	case !serves && !slices.Contains(sharers, r.name()) && len(sharers) >= r.options.MaxShared:
		return provider.Terminal(fmt.Errorf("load balancer %s is shared by %d Services already, and max-shared-lb is %d", lb.ID, len(sharers), r.options.MaxShared))
	default:
		return nil
	}
}

// proceed returns nil for a load balancer that can be changed now, and else does what its state needs and says to come again.
func (s services) proceed(ctx context.Context, r request, lb *loadbalancers.LoadBalancer, owns bool) error {
	switch nextStep(lb.ProvisioningStatus, r.options.Repair, owns, len(r.service.Status.LoadBalancer.Ingress) > 0) {
	case stepChange:
		return nil
	case stepFailover:
		err := loadbalancers.Failover(ctx, s.api.client, lb.ID).ExtractErr()
		s.lists.outdate(lb.ID)
		if err != nil {
			return s.api.failed("failover of load balancer "+lb.ID, err)
		}
		return again(fmt.Sprintf("load balancer %s was in ERROR and fails over", lb.ID))
	case stepRecreate:
		if err := s.deleteBalancer(ctx, lb.ID, true); err != nil {
			return s.api.failed("deleting load balancer "+lb.ID+", which is in ERROR", err)
		}
		return again(fmt.Sprintf("load balancer %s was in ERROR and is created anew", lb.ID))
	case stepReport:
		return fmt.Errorf("load balancer %s is in ERROR, and is left as it is: octavia's administrator can fail it over (openstack loadbalancer failover), "+
			"or delete it, and it is created anew", lb.ID)
	default:
		return again(fmt.Sprintf("load balancer %s is %s", lb.ID, lb.ProvisioningStatus))
	}
}

// EnsureLoadBalancerDeleted deletes the Service's load balancer, or from a shared one what is the Service's. It says "come again" until a look
// shows that it is gone; that it is gone already is fine.
func (b *Balancers) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *v1.Service) error {
	r, _ := b.request(ctx, clusterName, service, nil) // what is wrong with annotations does not matter here
	r.goes = true
	s, err := b.services(ctx)
	if err != nil {
		return err
	}
	lb, owns, serves, err := s.find(ctx, r)
	if err != nil {
		return err
	}
	if !serves {
		return s.network.deleteSecurityGroup(ctx, r)
	}
	if lb.ProvisioningStatus != stateActive && lb.ProvisioningStatus != stateError {
		return again(fmt.Sprintf("load balancer %s is %s", lb.ID, lb.ProvisioningStatus))
	}
	shared := slices.ContainsFunc(model.Sharers(lb.Tags), func(tag string) bool { return tag != r.name() })
	if shared || !strings.HasPrefix(lb.Name, model.NamePrefix) { // one that a person made is never deleted
		return s.leave(ctx, r, lb, owns)
	}
	return s.delete(ctx, r, lb, owns)
}

// leave takes from a shared load balancer what is the Service's: its listeners, and its tags at the end. The last Service to leave, by the
// tags at that moment, deletes the load balancer: the other Services may have left meanwhile.
func (s services) leave(ctx context.Context, r request, lb *loadbalancers.LoadBalancer, owns bool) error {
	have, err := s.empty(ctx, r, lb, owns)
	if err != nil {
		return err
	}
	lb, end, err := s.api.tagging.begin(ctx, s.api, lb.ID)
	if err != nil {
		return s.api.failed("looking at load balancer "+have.id+" again before it is left", err)
	}
	defer end()
	have.tags = lb.Tags
	want := model.LoadBalancer{Name: r.name(), Tags: []string{r.owner().Tag(), model.ClusterTag(r.cluster)}}
	tags := release(want, have)
	if len(model.Sharers(tags)) == 0 && strings.HasPrefix(lb.Name, model.NamePrefix) {
		return s.delete(ctx, r, lb, owns)
	}
	if !sameSet(tags, have.tags) {
		err := s.api.retag(ctx, have.id, have.name, tags)
		s.lists.outdate(have.id)
		if err != nil {
			return s.api.failed("taking the tags of the Service from load balancer "+have.id, err)
		}
	}
	return s.network.deleteSecurityGroup(ctx, r)
}

// empty deletes the Service's listeners.
func (s services) empty(ctx context.Context, r request, lb *loadbalancers.LoadBalancer, owns bool) (observation, error) {
	have, err := s.api.look(ctx, lb, r.name(), false)
	if err != nil {
		return have, err
	}
	changes, err := plan(model.LoadBalancer{Name: have.name, Tags: have.tags}, have, claimant{tag: r.name(), owns: owns})
	if err != nil {
		return have, err
	}
	changes = slices.DeleteFunc(changes, func(c change) bool { return c.verb == claim })
	return have, s.apply(ctx, have, changes)
}

// delete deletes the load balancer, with its floating IP unless that is kept.
func (s services) delete(ctx context.Context, r request, lb *loadbalancers.LoadBalancer, owns bool) error {
	attached, err := s.network.ofPort(ctx, lb.VipPortID, s.lists.ages.toChange)
	if err != nil {
		return err
	}
	keep := r.settings.KeepFloatingIP || slices.Contains(lb.Tags, model.KeepTag)
	if attached != nil && !keep && strings.HasPrefix(attached.Description, model.FloatingIPPrefix) {
		if err := s.network.dropFloatingIP(ctx, attached, false); err != nil {
			return err
		}
	}
	if r.options.SerialDelete {
		if _, err := s.empty(ctx, r, lb, owns); err != nil {
			return err
		}
	}
	if err := s.deleteBalancer(ctx, lb.ID, !r.options.SerialDelete); err != nil {
		return s.api.failed("deleting load balancer "+lb.ID, err)
	}
	s.seen.placeDeleted(r, lb.ID)
	return again(fmt.Sprintf("octavia deletes load balancer %s", lb.ID))
}

// deleteBalancer deletes a load balancer. That it is gone is fine.
func (s services) deleteBalancer(ctx context.Context, id string, cascade bool) error {
	err := loadbalancers.Delete(ctx, s.api.client, id, loadbalancers.DeleteOpts{Cascade: cascade}).ExtractErr()
	s.lists.outdate(id)
	s.seen.forget(id)
	return unlessGone(err)
}

// statusOf is what a Service shows. With the PROXY protocol traffic from inside the cluster has to go through the load balancer too.
func statusOf(addresses []string, hostname string, proxied bool, options annotations.Options) *v1.LoadBalancerStatus {
	if hostname != "" {
		return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{Hostname: hostname}}}
	}
	mode := v1.LoadBalancerIPModeVIP
	if proxied {
		mode = v1.LoadBalancerIPModeProxy
	}
	status := &v1.LoadBalancerStatus{}
	for _, address := range addresses {
		ingress := v1.LoadBalancerIngress{IP: address, IPMode: &mode}
		if proxied && options.IngressHostname {
			ingress = v1.LoadBalancerIngress{Hostname: address + "." + options.IngressHostnameSuffix}
		}
		status.Ingress = append(status.Ingress, ingress)
	}
	return status
}
