// Package instances makes instances of Nova's servers: cloudprovider.InstancesV2, and a list of all by one query of servers a page and one
// of ports. The functions in server.go and addresses.go decide what an answer of the services means, and call no service.
//
// Addresses, types, zones and provider IDs are those of OpenStack's own manager, so a cluster may move from it and back.
package instances
