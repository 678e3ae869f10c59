// Package instances makes instances of Nova's servers: cloudprovider.InstancesV2, and a list of all by one query of servers a page and
// one of ports. What an answer of the services means is decided in server.go and addresses.go, by functions that call nobody.
//
// Addresses, types, zones and provider IDs are those of OpenStack's own manager, so a cluster may move from it and back.
package instances
