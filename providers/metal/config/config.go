// Package config is the cloud config of the bare-metal provider: which machines there are, from which pools addresses come, and
// to which routers and segments they are announced.
package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

//go:generate go -C ../../../dev/tools/schema run . providers/metal/config

// APIVersion is the version of the kinds of this package.
const APIVersion = "metal.mooring.dev/v1alpha1"

const (
	// CloudConfigKind is the kind of the file that --cloud-config names.
	CloudConfigKind = "MetalCloudConfig"
	// MachineListKind is the kind of the files that inventory.paths names.
	MachineListKind = "MachineList"
)

// CloudConfig is the file that --cloud-config names. A section that is absent is a part of the provider that is off: without an
// inventory there are no instances, without pools no load balancers, and without bgp and l2 nothing is announced.
//
// Relative paths in a file are relative to the folder that the file is in.
type CloudConfig struct {
	metav1.TypeMeta `json:",inline"`
	// Inventory says which machines there are.
	Inventory Inventory `json:"inventory,omitzero"`
	// Power says how the power state of machines is read, and what follows from it.
	Power Power `json:"power,omitzero"`
	// NodeGroups are groups of machines that the Cluster Autoscaler turns on and off. Machines that are in none are left alone.
	NodeGroups []NodeGroup `json:"nodeGroups,omitempty"`
	// NodeGroupLease is where it is recorded which machines of groups are asleep.
	NodeGroupLease NodeGroupLease `json:"nodeGroupLease,omitzero"`
	// Pools are the addresses that load balancers get, in the order in which they are looked through within one priority.
	Pools []Pool `json:"pools,omitempty"`
	// Announcement says which next hops an address gets.
	Announcement Announcement `json:"announcement,omitzero"`
	// BGP is the speaker; nil announces nothing to routers.
	BGP *BGP `json:"bgp,omitempty"`
	// L2 answers for addresses on the segment of the replica that leads; nil answers for none.
	L2 *L2 `json:"l2,omitempty"`
}

// setDefaults fills in what the file leaves out. Machines have been completed where they were read.
func (c *CloudConfig) setDefaults() {
	c.Power.setDefaults()
	c.setNodeGroupDefaults()
	setPoolDefaults(c.Pools)
	c.Announcement.setDefaults()
	if c.BGP != nil {
		c.BGP.setDefaults()
	}
	if c.L2 != nil {
		c.L2.setDefaults()
	}
}

// validate returns everything that is wrong.
func (c *CloudConfig) validate() field.ErrorList {
	errs := validateType(c.TypeMeta, CloudConfigKind)
	errs = append(errs, c.Inventory.Defaults.validate(field.NewPath("inventory", "defaults"))...)
	errs = append(errs, validateUnique(c.Inventory.Machines)...)
	errs = append(errs, validateBMCs(c.Inventory.Machines)...)
	errs = append(errs, c.Power.validate(field.NewPath("power"))...)
	errs = append(errs, c.validateNodeGroups(field.NewPath("nodeGroups"))...)
	errs = append(errs, validatePools(field.NewPath("pools"), c.Pools)...)
	errs = append(errs, validateReserved(field.NewPath("pools"), c.Pools, c.reserved())...)
	errs = append(errs, c.Announcement.validate(field.NewPath("announcement"))...)
	if c.BGP != nil {
		errs = append(errs, c.BGP.validate(field.NewPath("bgp"))...)
		errs = append(errs, c.BGP.validatePoolNames(field.NewPath("bgp"), c.Pools)...)
		errs = append(errs, c.BGP.validateAdvertisements(field.NewPath("bgp", "advertisements"), c.Pools)...)
	}
	if c.L2 != nil {
		errs = append(errs, c.L2.validate(field.NewPath("l2"))...)
	}
	return errs
}

// validateType checks the version and the kind of a file.
func validateType(meta metav1.TypeMeta, kind string) field.ErrorList {
	var errs field.ErrorList
	if meta.APIVersion != APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), meta.APIVersion, []string{APIVersion}))
	}
	if meta.Kind != kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), meta.Kind, []string{kind}))
	}
	return errs
}
