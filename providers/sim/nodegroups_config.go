package sim

import (
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/provider"
)

// maxGroupSize is the most instances that a group may have.
const maxGroupSize = 10_000

// NodeGroup is a group of instances that are alike, which the Cluster Autoscaler makes and deletes.
type NodeGroup struct {
	// Name is the ID of the group, and begins the names of its instances. An RFC 1123 label of at most 57 characters. Required.
	Name string `json:"name"`
	// MinSize is how many instances the group keeps.
	MinSize int `json:"minSize,omitempty"`
	// MaxSize is how many instances the group may have. Required.
	MaxSize int `json:"maxSize"`
	// Zone is where the instances are. Required.
	Zone string `json:"zone"`
	// MachineType is what the instances are. Required.
	MachineType string `json:"machineType"`
	// Network is the CIDR that the internal addresses of the instances are of. It is for this group only. Required.
	Network string `json:"network"`
	// Labels are labels of the instances, and so of their nodes.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the taints with which the kubelets of the group register.
	Taints []Taint `json:"taints,omitempty"`
	// Options are what differs for the group from the autoscaler's own options.
	Options NodeGroupOptions `json:"options,omitzero"`
}

// Taint is a taint of nodes.
type Taint struct {
	// Key is the key of the taint. Required.
	Key string `json:"key"`
	// Value is its value.
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule, PreferNoSchedule or NoExecute. Required.
	Effect string `json:"effect"`
}

// NodeGroupOptions are options of the Cluster Autoscaler, with the names of its flags.
type NodeGroupOptions struct {
	// ScaleDownUtilizationThreshold is the part of a node, 0 to 1, below which it may be removed.
	ScaleDownUtilizationThreshold *float64 `json:"scaleDownUtilizationThreshold,omitempty"`
	// ScaleDownUnneededTime is how long a node is not needed before it is removed.
	ScaleDownUnneededTime *metav1.Duration `json:"scaleDownUnneededTime,omitempty"`
	// MaxNodeProvisionTime is how long an instance may take until its node has registered.
	MaxNodeProvisionTime *metav1.Duration `json:"maxNodeProvisionTime,omitempty"`
}

// options are these as the manager knows them.
func (o NodeGroupOptions) options() provider.NodeGroupOptions {
	known := provider.NodeGroupOptions{ScaleDownUtilizationThreshold: o.ScaleDownUtilizationThreshold}
	if o.ScaleDownUnneededTime != nil {
		known.ScaleDownUnneededTime = &o.ScaleDownUnneededTime.Duration
	}
	if o.MaxNodeProvisionTime != nil {
		known.MaxNodeProvisionTime = &o.MaxNodeProvisionTime.Duration
	}
	return known
}

// validateNodeGroups returns everything that is wrong with the groups of a config.
func validateNodeGroups(config Config) field.ErrorList {
	path := field.NewPath("nodeGroups")
	var errs field.ErrorList
	if len(config.NodeGroups) > 0 && config.ClusterName == "" {
		errs = append(errs, field.Required(field.NewPath("clusterName"), "it marks the instances of nodeGroups"))
	}
	names, networks := map[string]bool{}, map[netip.Prefix]int{}
	for i, group := range config.NodeGroups {
		at := path.Index(i)
		if names[group.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), group.Name))
		}
		names[group.Name] = true
		errs = append(errs, group.validate(at)...)
		network, err := netip.ParsePrefix(group.Network)
		if err != nil {
			continue
		}
		for other, index := range networks {
			if other.Overlaps(network) {
				errs = append(errs, field.Invalid(at.Child("network"), group.Network, fmt.Sprintf("overlaps %s of nodeGroups[%d]", other, index)))
			}
		}
		networks[network] = i
	}
	return errs
}

// validate returns what is wrong with a group alone.
func (g NodeGroup) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(g.Name + "-00000") {
		errs = append(errs, field.Invalid(at.Child("name"), g.Name, problem+" with six characters more"))
	}
	if g.MaxSize < 1 || g.MaxSize > maxGroupSize {
		errs = append(errs, field.Invalid(at.Child("maxSize"), g.MaxSize, fmt.Sprintf("must be 1 to %d", maxGroupSize)))
	}
	if g.MinSize < 0 || g.MinSize > g.MaxSize {
		errs = append(errs, field.Invalid(at.Child("minSize"), g.MinSize, "must be 0 to maxSize"))
	}
	if g.Zone == "" {
		errs = append(errs, field.Required(at.Child("zone"), "where the instances are"))
	}
	if g.MachineType == "" {
		errs = append(errs, field.Required(at.Child("machineType"), "what the instances are"))
	}
	if network, err := netip.ParsePrefix(g.Network); err != nil || network.Masked() != network {
		errs = append(errs, field.Invalid(at.Child("network"), g.Network, "must be a CIDR such as 10.20.0.0/16"))
	} else if hosts := network.Addr().BitLen() - network.Bits(); hosts < 15 && 1<<hosts-2 < g.MaxSize {
		errs = append(errs, field.Invalid(at.Child("network"), g.Network, fmt.Sprintf("has fewer addresses than maxSize, which is %d", g.MaxSize)))
	}
	errs = append(errs, metavalidation.ValidateLabels(g.Labels, at.Child("labels"))...)
	for i, taint := range g.Taints {
		errs = append(errs, taint.validate(at.Child("taints").Index(i))...)
	}
	return append(errs, g.Options.validate(at.Child("options"))...)
}

func (t Taint) validate(at *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabelName(t.Key, at.Child("key"))
	for _, problem := range validation.IsValidLabelValue(t.Value) {
		errs = append(errs, field.Invalid(at.Child("value"), t.Value, problem))
	}
	switch v1.TaintEffect(t.Effect) {
	case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
		return errs
	default:
		return append(errs, field.NotSupported(at.Child("effect"), t.Effect, []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}))
	}
}

func (o NodeGroupOptions) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t := o.ScaleDownUtilizationThreshold; t != nil && !(*t >= 0 && *t <= 1) {
		errs = append(errs, field.Invalid(at.Child("scaleDownUtilizationThreshold"), *t, "must be 0 to 1"))
	}
	for name, d := range map[string]*metav1.Duration{"scaleDownUnneededTime": o.ScaleDownUnneededTime, "maxNodeProvisionTime": o.MaxNodeProvisionTime} {
		if d != nil && d.Duration < 0 {
			errs = append(errs, field.Invalid(at.Child(name), d.Duration.String(), "must not be negative"))
		}
	}
	return errs
}
