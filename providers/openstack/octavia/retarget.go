package octavia

import (
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// UpdateLoadBalancer sets the members, and nothing else. It costs a call, and one for each pool; and three more or four unless what is below
// the load balancer is known from before, and differs.
func (b *Balancers) UpdateLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) error {
	r, err := b.request(ctx, clusterName, service, nodes)
	if err != nil {
		return err
	}
	want, err := desired(r)
	if err != nil {
		return provider.Terminal(err)
	}
	return b.retarget(ctx, r, func(listener observedListener) []model.Member {
		for _, wanted := range want.Listeners {
			if kept(wanted, listener) {
				return wanted.Pool.Members
			}
		}
		return listener.Pool.Members
	})
}

// retarget gives each pool of the Service's listeners the members that targets returns.
func (b *Balancers) retarget(ctx context.Context, r request, targets func(observedListener) []model.Member) error {
	s, err := b.services(ctx)
	if err != nil {
		return err
	}
	lb, owns, serves, err := s.find(ctx, r)
	if err != nil {
		return err
	}
	switch {
	case !serves:
		return fmt.Errorf("load balancer %s does not exist", r.name())
	case lb.ProvisioningStatus == stateError:
		return fmt.Errorf("load balancer %s is in ERROR: it has to be ensured", lb.ID)
	case lb.ProvisioningStatus != stateActive:
		return again(fmt.Sprintf("load balancer %s is %s", lb.ID, lb.ProvisioningStatus))
	}
	as := claimant{tag: r.name(), owns: owns}
	have, known := s.seen.of(lb)
	changes := retargeting(have, as, targets)
	if !known || len(changes) == 0 {
		if have, err = s.look(ctx, lb, r.name(), asksHealthCheckPort(r)); err != nil {
			return err
		}
		changes = retargeting(have, as, targets)
	}
	if err := s.apply(ctx, have, changes); err != nil {
		s.seen.forget(lb.ID) // what was known may no longer be so
		return err
	}
	s.seen.keep(lb.ID, withMembers(have.listeners, changes))
	if !r.options.ManageSecurityGroups {
		return nil
	}
	return s.network.ensureSecurityGroup(ctx, r, have)
}

// retargeting plans the changes that give the pools of a claimant's listeners the members that targets returns.
func retargeting(have observation, as claimant, targets func(observedListener) []model.Member) (changes []change) {
	for _, has := range have.listeners {
		if !as.mine(has) || has.poolID == "" {
			continue
		}
		wanted := has.Listener
		wanted.Pool.Members = targets(has)
		if has.membersFailed || !sameMembers(wanted.Pool.Members, has.Pool.Members) {
			if has.poolStuck {
				changes = append(changes, change{verb: updatePool, key: has.Key(), id: has.poolID, listener: wanted, had: has.Listener})
			}
			changes = append(changes, change{verb: setMembers, key: has.Key(), id: has.poolID, listener: wanted, had: has.Listener})
		}
	}
	return changes
}

// look is api.look, whose answer is remembered.
func (s services) look(ctx context.Context, lb *loadbalancers.LoadBalancer, tag string, monitorPorts bool) (observation, error) {
	have, err := s.api.look(ctx, lb, tag, monitorPorts)
	if err != nil {
		s.seen.forget(lb.ID)
		return have, err
	}
	s.seen.keep(lb.ID, slices.Clone(have.listeners))
	return have, nil
}
