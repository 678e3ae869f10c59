// Package openstack runs a real private OpenStack on this machine: keystone, placement, glance, nova with the hypervisor that nova has for
// its own tests, neutron with OVN, and octavia with its providers ovn and amphora. Nothing of that is a stand-in of ours: the services are
// Debian's packages, in a root directory of their own, and they are children of this process.
//
//	if err := openstack.Install(ctx, openstack.Options{Progress: os.Stderr}); err != nil { ... }
//	cloud, err := openstack.Start(ctx, openstack.Options{Progress: os.Stderr})
//	defer cloud.Close(ctx)
//	clients, err := cloud.Clients(ctx, cloud.Tenant())
//
// What a tenant reaches of it is real: logins, quotas, limits of the APIs, conflicts, states and how long they last. No packet reaches a
// server or the address of a load balancer: there are no hypervisors and no Open vSwitch behind the services.
//
// The addresses in the catalog of keystone are those of a proxy in this process, see Cloud.Faults: it counts the calls of tenants and makes
// those fail that a test wants to fail. The services call each other directly.
package openstack
