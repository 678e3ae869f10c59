// Package openstack is the provider for OpenStack: nodes are servers of Nova. Its cloud config is cloud.conf, the file of OpenStack's own
// manager, and provider IDs, addresses, types and zones are the same, so a cluster may move from that manager and back.
package openstack
