package openstack

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/mooring-ccm/mooring/providers/openstack/config"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
)

// balancerClients returns the clients that load balancers are made with.
func (c *Cloud) balancerClients(ctx context.Context) (octavia, neutron *gophercloud.ServiceClient, err error) {
	clients, err := c.session.Clients(ctx)
	if err != nil {
		return nil, nil, err
	}
	if octavia, err = clients.LoadBalancer(ctx); err != nil {
		return nil, nil, err
	}
	neutron, err = clients.Network(ctx)
	return octavia, neutron, err
}

// balancerOptions returns what the config in force says of load balancers.
func (c *Cloud) balancerOptions() annotations.Options {
	current := c.source.Current()
	return optionsOf(current.LoadBalancer, current.LoadBalancerClass)
}

func optionsOf(lb config.LoadBalancer, classes map[string]config.LoadBalancerClass) annotations.Options {
	options := annotations.Options{
		Provider: lb.LBProvider, Method: lb.LBMethod,
		SubnetID: lb.SubnetID, NetworkID: lb.NetworkID, MemberSubnetID: lb.MemberSubnetID,
		FloatingNetworkID: lb.FloatingNetworkID,
		Floating:          annotations.FloatingSubnet{ID: lb.FloatingSubnetID, Name: lb.FloatingSubnet, Tags: lb.FloatingSubnetTags},
		Internal:          lb.InternalLB, ManageSecurityGroups: lb.ManageSecurityGroups,
		CreateMonitor: lb.CreateMonitor, MonitorDelay: lb.MonitorDelay, MonitorTimeout: lb.MonitorTimeout,
		MonitorMaxRetries: lb.MonitorMaxRetries, MonitorMaxRetriesDown: lb.MonitorMaxRetriesDown,
		NodeSelector: lb.NodeSelector, SerialDelete: !lb.CascadeDelete, SerialCreate: lb.ProviderRequiresSerialAPICalls,
		FlavorID: lb.FlavorID, AvailabilityZone: lb.AvailabilityZone,
		IngressHostname: lb.EnableIngressHostname, IngressHostnameSuffix: lb.IngressHostnameSuffix,
		TLSContainerRef: lb.TLSContainerRef, ContainerStore: lb.ContainerStore,
		MaxShared: lb.MaxSharedLB,
		Classes:   map[string]annotations.Class{},
	}
	for name, class := range classes {
		options.Classes[name] = annotations.Class{
			FloatingNetworkID: class.FloatingNetworkID,
			Floating:          annotations.FloatingSubnet{ID: class.FloatingSubnetID, Name: class.FloatingSubnet, Tags: class.FloatingSubnetTags},
			SubnetID:          class.SubnetID, NetworkID: class.NetworkID, MemberSubnetID: class.MemberSubnetID,
		}
	}
	return options
}
