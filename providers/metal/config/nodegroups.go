package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The defaults of NodeGroup and NodeGroupLease.
const (
	DefaultMinCycleTime        = time.Hour
	DefaultShutDownTimeout     = 5 * time.Minute
	DefaultWakeTimeout         = 10 * time.Minute
	DefaultNodeGroupLeaseName  = "mooring-metal-node-groups"
	DefaultNodeGroupLeaseSpace = metav1.NamespaceSystem
)

// maxGroupedMachines is how many machines all groups together may have: what is recorded of them has to fit into the annotation of an
// object, and all annotations of one into 256 KiB.
const maxGroupedMachines = 1000

// NodeGroup is a group of machines that are alike, which the Cluster Autoscaler turns on and off. A machine that is off by its wish is
// asleep: its node is deleted, and comes back when the machine is turned on.
type NodeGroup struct {
	// Name is the ID of the group. An RFC 1123 label. Required.
	Name string `json:"name"`
	// Machines selects the machines of the group. Each needs a bmc and a systemUUID, and is in one group at most. Required.
	Machines MachineSelector `json:"machines"`
	// MinSize is how many machines the autoscaler keeps on.
	MinSize int `json:"minSize,omitempty"`
	// MaxSize is how many machines may be on, no more than there are. Default: as many as there are.
	MaxSize int `json:"maxSize,omitempty"`
	// Capacity is what a machine of the group has: cpu, memory, pods, and other resources such as nvidia.com/gpu. Default: a node's of the
	// group, and without a node the group is not scaled up.
	Capacity map[string]string `json:"capacity,omitempty"`
	// Labels are labels with which the kubelets of the group register, beyond those of the machines.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the taints with which the kubelets of the group register.
	Taints []NodeTaint `json:"taints,omitempty"`
	// Options are what differs for the group from the autoscaler's own options.
	Options NodeGroupOptions `json:"options,omitzero"`
	// MinCycleTime is the shortest time between two starts of a machine, 0s to 168h: each wears it. Default: 1h.
	MinCycleTime *metav1.Duration `json:"minCycleTime,omitempty"`
	// ShutDownTimeout is how long an operating system may take to shut down before its machine is turned off by force. Default: 5m.
	ShutDownTimeout metav1.Duration `json:"shutDownTimeout,omitzero"`
	// WakeTimeout is how long a machine may take until its BMC says that it is on, before an error is reported. Attempts go on. Default:
	// 10m.
	WakeTimeout metav1.Duration `json:"wakeTimeout,omitzero"`
}

// MachineSelector selects machines that have all of this. At least one of the fields has to be there.
type MachineSelector struct {
	// Names are names of machines.
	Names []string `json:"names,omitempty"`
	// Zones are zones of machines.
	Zones []string `json:"zones,omitempty"`
	// MachineTypes are types of machines.
	MachineTypes []string `json:"machineTypes,omitempty"`
	// Labels are labels that a machine has, those of the defaults included.
	Labels map[string]string `json:"labels,omitempty"`
}

// NodeTaint is a taint of nodes.
type NodeTaint struct {
	// Key is the key of the taint. Required.
	Key string `json:"key"`
	// Value is its value.
	Value string `json:"value,omitempty"`
	// Effect is what it does. Required.
	Effect TaintEffect `json:"effect"`
}

// TaintEffect is what a taint does.
type TaintEffect string

// The effects that there are.
const (
	EffectNoSchedule       TaintEffect = "NoSchedule"
	EffectPreferNoSchedule TaintEffect = "PreferNoSchedule"
	EffectNoExecute        TaintEffect = "NoExecute"
)

// NodeGroupOptions are options of the Cluster Autoscaler, with the names of its flags.
type NodeGroupOptions struct {
	// ScaleDownUtilizationThreshold is the part of a node, 0 to 1, below which it may be removed.
	ScaleDownUtilizationThreshold *float64 `json:"scaleDownUtilizationThreshold,omitempty"`
	// ScaleDownUnneededTime is how long a node is not needed before its machine is turned off.
	ScaleDownUnneededTime *metav1.Duration `json:"scaleDownUnneededTime,omitempty"`
	// ScaleDownUnreadyTime is how long a node is not ready and not needed before its machine is turned off.
	ScaleDownUnreadyTime *metav1.Duration `json:"scaleDownUnreadyTime,omitempty"`
	// MaxNodeProvisionTime is how long a machine may take until its node has registered.
	MaxNodeProvisionTime *metav1.Duration `json:"maxNodeProvisionTime,omitempty"`
	// IgnoreDaemonSetsUtilization says that Pods of DaemonSets do not count for the utilization.
	IgnoreDaemonSetsUtilization *bool `json:"ignoreDaemonSetsUtilization,omitempty"`
}

// NodeGroupLease is the Lease that says which machines of groups are asleep, in an annotation. It is made when it is needed.
type NodeGroupLease struct {
	// Namespace is where the Lease is. Default: kube-system.
	Namespace string `json:"namespace,omitempty"`
	// Name is its name. Managers that share a cluster need a Lease each. Default: mooring-metal-node-groups.
	Name string `json:"name,omitempty"`
}

// Selects reports whether a machine is selected.
func (s *MachineSelector) Selects(m *Machine) bool {
	for key, value := range s.Labels {
		if has, ok := m.Labels[key]; !ok || has != value {
			return false
		}
	}
	among := func(values []string, value string) bool { return len(values) == 0 || slices.Contains(values, value) }
	return !s.empty() && among(s.Names, m.Name) && among(s.Zones, m.Zone) && among(s.MachineTypes, m.MachineType)
}

func (s *MachineSelector) empty() bool {
	return len(s.Names)+len(s.Zones)+len(s.MachineTypes)+len(s.Labels) == 0
}

// MachinesOf returns the machines of a group, in the order of the inventory.
func (c *CloudConfig) MachinesOf(group *NodeGroup) []*Machine {
	var selected []*Machine
	for i := range c.Inventory.Machines {
		if group.Machines.Selects(&c.Inventory.Machines[i]) {
			selected = append(selected, &c.Inventory.Machines[i])
		}
	}
	return selected
}

// setNodeGroupDefaults fills in what groups leave out.
func (c *CloudConfig) setNodeGroupDefaults() {
	for i := range c.NodeGroups {
		group := &c.NodeGroups[i]
		group.MaxSize = cmp.Or(group.MaxSize, len(c.MachinesOf(group)))
		if group.MinCycleTime == nil {
			group.MinCycleTime = &metav1.Duration{Duration: DefaultMinCycleTime}
		}
		group.ShutDownTimeout.Duration = cmp.Or(group.ShutDownTimeout.Duration, DefaultShutDownTimeout)
		group.WakeTimeout.Duration = cmp.Or(group.WakeTimeout.Duration, DefaultWakeTimeout)
	}
	if len(c.NodeGroups) > 0 {
		c.NodeGroupLease.Namespace = cmp.Or(c.NodeGroupLease.Namespace, DefaultNodeGroupLeaseSpace)
		c.NodeGroupLease.Name = cmp.Or(c.NodeGroupLease.Name, DefaultNodeGroupLeaseName)
	}
}

// validateNodeGroups returns everything that is wrong with the groups.
func (c *CloudConfig) validateNodeGroups(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, member, grouped := map[string]bool{}, map[*Machine]string{}, 0
	for i := range c.NodeGroups {
		group, at := &c.NodeGroups[i], path.Index(i)
		if names[group.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), group.Name))
		}
		names[group.Name] = true
		machines := c.MachinesOf(group)
		grouped += len(machines)
		errs = append(errs, group.validate(at, len(machines))...)
		errs = append(errs, group.Machines.validate(at.Child("machines"), c.Inventory.Machines)...)
		for _, machine := range machines {
			if other, taken := member[machine]; taken {
				errs = append(errs, field.Invalid(at.Child("machines"), machine.Name, "is in the group "+other+", too"))
				continue
			}
			member[machine] = group.Name
			errs = append(errs, machine.validateGrouped(group.Name)...)
		}
	}
	if grouped > maxGroupedMachines {
		errs = append(errs, field.TooMany(path, grouped, maxGroupedMachines))
	}
	return append(errs, c.NodeGroupLease.validate(field.NewPath("nodeGroupLease"), len(c.NodeGroups) > 0)...)
}

// validate returns what is wrong with a group of so many machines.
func (g *NodeGroup) validate(at *field.Path, machines int) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(g.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), g.Name, problem))
	}
	if g.MaxSize < 1 || g.MaxSize > machines {
		errs = append(errs, field.Invalid(at.Child("maxSize"), g.MaxSize, fmt.Sprintf("must be 1 to %d, which is how many machines are selected", machines)))
	}
	if g.MinSize < 0 || g.MinSize > g.MaxSize {
		errs = append(errs, field.Invalid(at.Child("minSize"), g.MinSize, "must be 0 to maxSize"))
	}
	errs = append(errs, validateCapacity(at.Child("capacity"), g.Capacity)...)
	errs = append(errs, metav1validation.ValidateLabels(g.Labels, at.Child("labels"))...)
	for i, taint := range g.Taints {
		errs = append(errs, taint.validate(at.Child("taints").Index(i))...)
	}
	errs = append(errs, g.Options.validate(at.Child("options"))...)
	if g.MinCycleTime != nil {
		errs = append(errs, between(at.Child("minCycleTime"), g.MinCycleTime.Duration, 0, 7*24*time.Hour)...)
	}
	errs = append(errs, between(at.Child("shutDownTimeout"), g.ShutDownTimeout.Duration, time.Second, 24*time.Hour)...)
	return append(errs, between(at.Child("wakeTimeout"), g.WakeTimeout.Duration, 10*time.Second, 24*time.Hour)...)
}

// validate returns which machines do not exist that are selected.
func (s *MachineSelector) validate(at *field.Path, machines []Machine) field.ErrorList {
	if s.empty() {
		return field.ErrorList{field.Required(at, "at least one of names, zones, machineTypes and labels")}
	}
	errs := metav1validation.ValidateLabels(s.Labels, at.Child("labels"))
	for _, list := range []struct {
		name   string
		values []string
		of     func(*Machine) string
	}{
		{"names", s.Names, func(m *Machine) string { return m.Name }},
		{"zones", s.Zones, func(m *Machine) string { return m.Zone }},
		{"machineTypes", s.MachineTypes, func(m *Machine) string { return m.MachineType }},
	} {
		for i, value := range list.values {
			switch {
			case slices.Contains(list.values[:i], value):
				errs = append(errs, field.Duplicate(at.Child(list.name).Index(i), value))
			case !slices.ContainsFunc(machines, func(m Machine) bool { return list.of(&m) == value }):
				errs = append(errs, field.NotFound(at.Child(list.name).Index(i), value))
			}
		}
	}
	return errs
}

// validateGrouped returns why a machine cannot be one of a group: nothing turns it on and off, or its BMC cannot be told from another
// machine's.
func (m *Machine) validateGrouped(group string) field.ErrorList {
	at := field.NewPath(m.Origin)
	if m.BMC == nil {
		return field.ErrorList{field.Required(at.Child("bmc"), fmt.Sprintf("machine %s is in the node group %s, which turns it on and off", m.Name, group))}
	}
	var errs field.ErrorList
	if _, known := KnownUUID(m.BMCSystemUUID()); !known {
		errs = append(errs, field.Required(at.Child("systemUUID"),
			fmt.Sprintf("machine %s is in the node group %s, and is turned on and off by a BMC that names it", m.Name, group)))
	}
	if command := m.BMC.Command; command != nil {
		for _, program := range []struct {
			name string
			argv []string
		}{{"powerOn", command.PowerOn}, {"powerOff", command.PowerOff}} {
			if len(program.argv) == 0 {
				errs = append(errs, field.Required(at.Child("bmc", "command", program.name), fmt.Sprintf("machine %s is in the node group %s", m.Name, group)))
			}
		}
	}
	return errs
}

// validateCapacity returns what is no amount of a resource, and what is missing if anything is there.
func validateCapacity(at *field.Path, capacity map[string]string) field.ErrorList {
	if len(capacity) == 0 {
		return nil
	}
	var errs field.ErrorList
	for name, text := range capacity {
		for _, problem := range validation.IsQualifiedName(name) {
			errs = append(errs, field.Invalid(at, name, problem))
		}
		if amount, err := resource.ParseQuantity(text); err != nil || amount.Sign() <= 0 {
			errs = append(errs, field.Invalid(at.Key(name), text, "must be an amount above 0 such as 32 or 256Gi"))
		}
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods} {
		if _, ok := capacity[string(name)]; !ok {
			errs = append(errs, field.Required(at.Key(string(name)), "it goes with the others"))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func (t NodeTaint) validate(at *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(t.Key, at.Child("key"))
	for _, problem := range validation.IsValidLabelValue(t.Value) {
		errs = append(errs, field.Invalid(at.Child("value"), t.Value, problem))
	}
	if effects := []TaintEffect{EffectNoSchedule, EffectPreferNoSchedule, EffectNoExecute}; !slices.Contains(effects, t.Effect) {
		errs = append(errs, field.NotSupported(at.Child("effect"), t.Effect, effects))
	}
	return errs
}

func (o NodeGroupOptions) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t := o.ScaleDownUtilizationThreshold; t != nil && !(*t >= 0 && *t <= 1) {
		errs = append(errs, field.Invalid(at.Child("scaleDownUtilizationThreshold"), *t, "must be 0 to 1"))
	}
	for _, option := range []struct {
		name  string
		value *metav1.Duration
	}{
		{"scaleDownUnneededTime", o.ScaleDownUnneededTime}, {"scaleDownUnreadyTime", o.ScaleDownUnreadyTime},
		{"maxNodeProvisionTime", o.MaxNodeProvisionTime},
	} {
		if option.value != nil && option.value.Duration < 0 {
			errs = append(errs, field.Invalid(at.Child(option.name), option.value.Duration.String(), "must not be negative"))
		}
	}
	return errs
}

// validate checks the names of the Lease, and that it belongs to something.
func (l *NodeGroupLease) validate(at *field.Path, groups bool) field.ErrorList {
	if !groups {
		if *l != (NodeGroupLease{}) {
			return field.ErrorList{field.Invalid(at, l.Namespace+"/"+l.Name, "there are no nodeGroups")}
		}
		return nil
	}
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(l.Namespace) {
		errs = append(errs, field.Invalid(at.Child("namespace"), l.Namespace, problem))
	}
	for _, problem := range validation.IsDNS1123Subdomain(l.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), l.Name, problem))
	}
	return errs
}
