package octavia

import (
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// candidates returns the load balancers of a Service, in the order in which they were made: one unless its creation was asked for twice. Where
// the Service has one that is known, a list that is shared with other Services shows it. That there is none, and whose one is that is not
// known, is found by a call of the Service's own.
func (s services) candidates(ctx context.Context, r request) ([]loadbalancers.LoadBalancer, error) {
	if found, known := s.known(ctx, r); known {
		return found, nil
	}
	s.seen.unplace(r)
	if r.settings.LoadBalancerID != "" {
		found, err := s.api.named(ctx, r)
		if err == nil && len(found) == 1 {
			s.seen.place(r, found[0].ID)
		}
		return found, err
	}
	found, err := s.api.listBalancers(ctx, loadbalancers.ListOpts{Name: r.name()})
	if err != nil {
		return nil, err
	}
	own, unowned := claims(r, found)
	switch {
	case len(own) == 1 && len(unowned) == 0:
		s.seen.place(r, own[0].ID)
		return own, nil
	case len(own) > 0:
		return own, nil
	case len(unowned) < 2:
		return unowned, nil
	default:
		return nil, fmt.Errorf("%d load balancers have the name %s and no tags that say whose they are (%s and %s among them): delete all but one",
			len(unowned), r.name(), unowned[0].ID, unowned[1].ID)
	}
}

// claims returns those load balancers of a name whose tags name the Service's UID, the first one first, and those whose tags name no Service of
// this name, which cloud-provider-openstack made: a Service that shares one may have its tags there already. One that names another UID belongs
// to a Service of the same name, of another cluster or of another time.
func claims(r request, found []loadbalancers.LoadBalancer) (own, unowned []loadbalancers.LoadBalancer) {
	for i := range found {
		switch named, claimed := r.namedBy(found[i].Tags); {
		case named:
			own = append(own, found[i])
		case !claimed:
			unowned = append(unowned, found[i])
		}
	}
	slices.SortStableFunc(own, func(a, b loadbalancers.LoadBalancer) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return own, unowned
}

// named returns the load balancer that a Service names by its ID.
func (a api) named(ctx context.Context, r request) ([]loadbalancers.LoadBalancer, error) {
	id := r.settings.LoadBalancerID
	found, err := loadbalancers.Get(ctx, a.client, id).Extract()
	if isNotFound(err) || err == nil && found.ProvisioningStatus == stateDeleted {
		return nil, nil
	}
	if err != nil {
		return nil, a.failed("getting load balancer "+id, err)
	}
	return []loadbalancers.LoadBalancer{*found}, nil
}

// known returns the one load balancer of a Service from the list of the cluster's, if the Service was found to have it and no other one before. It
// is known to be gone, which is an empty answer, only to who does not create one then, and if octavia has taken its deletion from here. The list began after all that was written to
// the load balancer from here.
func (s services) known(ctx context.Context, r request) ([]loadbalancers.LoadBalancer, bool) {
	place, placed := s.seen.placed(r)
	if !placed || r.settings.LoadBalancerID != "" && r.settings.LoadBalancerID != place.id {
		return nil, false
	}
	listed, _, ok := s.lists.of(r.cluster).get(ctx, s.lists.since(s.lists.ages.toChange, place.id))
	if !ok {
		return nil, false
	}
	var own []loadbalancers.LoadBalancer
	for i := range listed {
		if named, _ := r.namedBy(listed[i].Tags); named {
			own = append(own, listed[i])
		}
	}
	switch {
	case len(own) == 0 && place.deleted && r.goes:
		s.seen.unplace(r)
		return nil, true
	case len(own) == 1 && own[0].ID == place.id && (own[0].Name == r.name() || r.settings.LoadBalancerID == place.id):
		if own[0].ProvisioningStatus != stateActive {
			s.lists.outdate(place.id) // who comes again sees what came after
		}
		return own, true
	default:
		return nil, false
	}
}

// namedBy reports whether the tags of a load balancer name the Service, and whether they name it or another one of its name.
func (r request) namedBy(tags []string) (named, claimed bool) {
	for _, owner := range model.Owners(tags) {
		named = named || owner.UID == r.service.UID
		claimed = claimed || owner.UID == r.service.UID || owner.Service == r.key()
	}
	return named, claimed
}
