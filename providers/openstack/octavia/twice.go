package octavia

import (
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// keepOne returns the one load balancer of a Service that stays, or nil if the Service has none, and deletes the others. Octavia goes on to
// create a load balancer whose answer came too late for its caller, who then finds none and asks for another. The load balancer stays whose
// address the Service shows, or else the first one. A load balancer that another Service shares stays as well. While octavia deletes, the
// error is "come again".
func (s services) keepOne(ctx context.Context, r request, found []loadbalancers.LoadBalancer) (*loadbalancers.LoadBalancer, error) {
	if len(found) == 0 {
		return nil, nil
	}
	stays := 0
	for i := range found {
		if len(found) == 1 {
			break // no call is needed to choose
		}
		shown, err := s.shows(ctx, r, &found[i])
		if err != nil {
			return nil, err
		}
		if shown {
			stays = i
			break
		}
	}
	for i := range found {
		if i == stays || !onlyOf(r, &found[i]) {
			continue
		}
		return nil, s.deleteSecond(ctx, r, &found[i])
	}
	return &found[stays], nil
}

// shows reports whether the Service shows the address of a load balancer.
func (s services) shows(ctx context.Context, r request, lb *loadbalancers.LoadBalancer) (bool, error) {
	attached, err := s.network.ofPort(ctx, lb.VipPortID, s.lists.ages.toChange)
	if err != nil {
		return false, err
	}
	for _, ingress := range r.service.Status.LoadBalancer.Ingress {
		if ingress.IP != "" && (ingress.IP == lb.VipAddress || attached != nil && ingress.IP == attached.FloatingIP) {
			return true, nil
		}
	}
	return false, nil
}

// onlyOf reports whether a load balancer was made for the Service and serves no other one.
func onlyOf(r request, lb *loadbalancers.LoadBalancer) bool {
	owners := model.Owners(lb.Tags)
	return lb.Name == r.name() && len(owners) == 1 && owners[0].UID == r.service.UID &&
		!slices.ContainsFunc(model.Sharers(lb.Tags), func(tag string) bool { return tag != r.name() })
}

// deleteSecond deletes a load balancer that was made twice, with its floating IP.
func (s services) deleteSecond(ctx context.Context, r request, lb *loadbalancers.LoadBalancer) error {
	if lb.ProvisioningStatus != stateActive && lb.ProvisioningStatus != stateError {
		return again(fmt.Sprintf("load balancer %s, which was made twice, is %s", lb.ID, lb.ProvisioningStatus))
	}
	attached, err := s.network.ofPort(ctx, lb.VipPortID, s.lists.ages.toChange)
	if err == nil {
		err = s.network.dropFloatingIP(ctx, attached, r.settings.KeepFloatingIP)
	}
	if err != nil {
		return err
	}
	if err := s.deleteBalancer(ctx, lb.ID, !r.options.SerialDelete); err != nil {
		return s.api.failed("deleting load balancer "+lb.ID+", which was made twice", err)
	}
	return again(fmt.Sprintf("octavia deletes load balancer %s, which was made twice", lb.ID))
}
