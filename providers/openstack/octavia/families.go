package octavia

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// dualStackField is what of a Service asks for a second address.
const dualStackField = "spec.ipFamilyPolicy RequireDualStack (additional VIPs)"

// placeVIP sees to it that the VIP gets an address of the Service's first family: in the subnet of the nodes if none is configured. A
// configured subnet of the other family is the subnet of most Services. A Service that asks for IPv6 first then has its VIP beside it, in
// the only subnet of its network that has IPv6. Octavia itself takes IPv4 where a network has both.
func (s services) placeVIP(ctx context.Context, r request, want *model.LoadBalancer) (err error) {
	switch {
	case want.VIPPortID != "":
		return nil
	case want.VIPSubnetID == "" && want.VIPNetworkID == "":
		want.VIPSubnetID, err = s.network.subnetOf(ctx, r.nodes, r.family())
		return err
	case r.family() != v1.IPv6Protocol:
		return nil
	}
	configured, network := "network "+want.VIPNetworkID, want.VIPNetworkID
	if want.VIPSubnetID != "" {
		subnet, err := subnets.Get(ctx, s.network.client, want.VIPSubnetID).Extract()
		if err != nil {
			return s.network.failed("looking at subnet "+want.VIPSubnetID, err)
		}
		if subnet.IPVersion == int(gophercloud.IPv6) {
			return nil
		}
		configured, network = fmt.Sprintf("subnet %s of network %s has IPv4, and the network", subnet.ID, subnet.NetworkID), subnet.NetworkID
	}
	beside, err := pagesOf(ctx, subnets.List(s.network.client, subnets.ListOpts{NetworkID: network, IPVersion: int(gophercloud.IPv6)}), subnets.ExtractSubnets)
	if err != nil {
		return s.network.failed("listing the subnets of network "+network, err)
	}
	if len(beside) != 1 {
		return provider.Terminal(fmt.Errorf("spec.ipFamilies asks for IPv6 first: %s has %d subnets of IPv6: name one by the annotation %s",
			configured, len(beside), annotations.Prefix+"subnet-id"))
	}
	want.VIPSubnetID, want.VIPNetworkID = beside[0].ID, ""
	return nil
}

// secondFamily is the family of the additional VIP, empty for none (ADR 38). A Service that only prefers two families has one address, as with
// cloud-provider-openstack: a driver that cannot do more would refuse it otherwise.
func (r request) secondFamily() v1.IPFamily {
	policy := r.service.Spec.IPFamilyPolicy
	if policy == nil || *policy != v1.IPFamilyPolicyRequireDualStack || len(r.service.Spec.IPFamilies) < 2 {
		return ""
	}
	return r.service.Spec.IPFamilies[1]
}

// additionalSubnets returns the subnets of additional VIPs: that in which the nodes have their addresses of the second family. Octavia takes
// subnets of the VIP's network only.
func (s services) additionalSubnets(ctx context.Context, r request) ([]string, error) {
	second := r.secondFamily()
	if second == "" {
		return nil, nil
	}
	subnet, err := s.network.subnetOf(ctx, r.nodes, second)
	if errors.Is(err, errNoSubnet) {
		return nil, fmt.Errorf("%s: no node has an address of %s that is of a port of its server, by which the subnet of the additional VIP is found", dualStackField, second)
	}
	return []string{subnet}, err
}

// lacksFamily returns an error if octavia took an additional VIP and gave it no address: drivers that do not know additional VIPs leave
// them out without a word. A load balancer that was made without one goes on to serve the family that it has, since octavia adds none later.
func lacksFamily(r request, have observation) error {
	if r.secondFamily() == "" || !have.vipMissing {
		return nil
	}
	return provider.Terminal(&UnsupportedError{Driver: have.driver, Field: dualStackField, Fault: "load balancer " + have.id +
		" has an additional VIP without an address; PreferDualStack and SingleStack have one address"})
}

// vipsOf returns the addresses of a load balancer's VIPs, the first one first, and whether one has none.
func vipsOf(lb *loadbalancers.LoadBalancer) (addresses []string, missing bool) {
	addresses = []string{lb.VipAddress}
	for _, additional := range lb.AdditionalVips {
		if additional.IPAddress == "" {
			missing = true
			continue
		}
		addresses = append(addresses, additional.IPAddress)
	}
	return addresses, missing
}

// floats returns which VIP a floating IP is for: the first that has no IPv6 address. It is negative if there is no such VIP.
func floats(vips []string) int {
	return slices.IndexFunc(vips, func(address string) bool {
		vip, err := netip.ParseAddr(address)
		return err != nil || !vip.Is6()
	})
}

// shownAddresses are the VIPs with the floating IP, unless that is empty, in place of the one that it is for.
func shownAddresses(vips []string, floating string) []string {
	shown := slices.Clone(vips)
	if index := floats(vips); index >= 0 && floating != "" {
		shown[index] = floating
	}
	return shown
}
