// Package config is the cloud config of the bare-metal provider: which machines there are, from which pools addresses come, and
// who is told where they are.
package config

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIVersion is the version of the kinds of this package.
const APIVersion = "metal.mooring.dev/v1alpha1"

// CloudConfigKind is the kind of the file that --cloud-config names.
const CloudConfigKind = "MetalCloudConfig"

// CloudConfig is the file that --cloud-config names. A section that is absent is a part of the provider that is off: without
// pools there are no load balancers, without bgp and l2 nothing is announced.
type CloudConfig struct {
	metav1.TypeMeta `json:",inline"`
	// Inventory says which machines there are.
	Inventory Inventory `json:"inventory"`
	// Power says how the power state of machines is read, and what follows from it.
	Power Power `json:"power,omitzero"`
	// Pools are the addresses that load balancers get, in the order in which they are looked through within one priority.
	Pools []Pool `json:"pools,omitempty"`
	// Announcement says which next hops an address gets.
	Announcement Announcement `json:"announcement,omitzero"`
	// BGP is the speaker; nil announces nothing to routers.
	BGP *BGP `json:"bgp,omitempty"`
	// L2 answers for addresses on the segment of the replica that leads; nil answers for none.
	L2 *L2 `json:"l2,omitempty"`
}
