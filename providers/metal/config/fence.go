package config

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The defaults of Fence.
const (
	DefaultFenceAfter             = 5 * time.Minute
	DefaultFenceInterval          = time.Minute
	DefaultFenceTimeout           = 30 * time.Second
	DefaultFenceMaxUnknownPercent = 49
	DefaultFenceLeaseName         = "mooring-metal-fencing"
	DefaultFenceLeaseSpace        = metav1.NamespaceSystem
)

// Fence says whether machines are turned off whose nodes have been silent for a while although they have power: it is unknown whether
// they still write to their volumes. One machine is turned off at a time, and only the operator turns it on again.
type Fence struct {
	// Enabled says that they are. It goes with outOfService.enabled only. Default: false.
	Enabled bool `json:"enabled,omitempty"`
	// After is how long a node's condition Ready has to have been Unknown while the API server answered. Default: 5m.
	After metav1.Duration `json:"after,omitzero"`
	// MaxUnknownPercent is the share of nodes that may be Unknown, 1 to 99. With more, no machine is turned off: the network is a likelier
	// cause. Default: 49.
	MaxUnknownPercent int `json:"maxUnknownPercent,omitempty"`
	// Interval is the time from one power-off to the next. Default: 1m.
	Interval metav1.Duration `json:"interval,omitzero"`
	// Timeout is how long a BMC may take until it has confirmed that the machine is off. Default: 30s.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// OutsideCluster says that the replicas of the manager run on no node of this cluster. Otherwise a replica that does not find its own
	// node turns nothing off. Default: false.
	OutsideCluster bool `json:"outsideCluster,omitempty"`
	// Lease is where attempts are recorded.
	Lease FenceLease `json:"lease,omitzero"`
}

// FenceLease is the Lease that says which machines were turned off, in an annotation. It is made when it is needed.
type FenceLease struct {
	// Namespace is where the Lease is. Default: kube-system.
	Namespace string `json:"namespace,omitempty"`
	// Name is its name. Managers that share a cluster need a Lease each. Default: mooring-metal-fencing.
	Name string `json:"name,omitempty"`
}

// WithDefaults returns the Lease with what it does not say.
func (l FenceLease) WithDefaults() FenceLease {
	return FenceLease{Namespace: cmp.Or(l.Namespace, DefaultFenceLeaseSpace), Name: cmp.Or(l.Name, DefaultFenceLeaseName)}
}

func (f *Fence) setDefaults() {
	if !f.Enabled {
		return
	}
	f.After.Duration = cmp.Or(f.After.Duration, DefaultFenceAfter)
	f.Interval.Duration = cmp.Or(f.Interval.Duration, DefaultFenceInterval)
	f.Timeout.Duration = cmp.Or(f.Timeout.Duration, DefaultFenceTimeout)
	f.MaxUnknownPercent = cmp.Or(f.MaxUnknownPercent, DefaultFenceMaxUnknownPercent)
	f.Lease = f.Lease.WithDefaults()
}

func (o *OutOfService) validate(path *field.Path) field.ErrorList {
	errs := between(path.Child("after"), o.After.Duration, time.Second, 24*time.Hour)
	if !o.Fence.Enabled {
		return errs
	}
	at := path.Child("fence")
	if !o.Enabled {
		errs = append(errs, field.Invalid(at.Child("enabled"), true, "needs outOfService.enabled: without the taint, nothing follows"))
	}
	errs = append(errs, between(at.Child("after"), o.Fence.After.Duration, 30*time.Second, 24*time.Hour)...)
	errs = append(errs, between(at.Child("interval"), o.Fence.Interval.Duration, 10*time.Second, 24*time.Hour)...)
	errs = append(errs, between(at.Child("timeout"), o.Fence.Timeout.Duration, 5*time.Second, 10*time.Minute)...)
	if percent := o.Fence.MaxUnknownPercent; percent < 1 || percent > 99 {
		errs = append(errs, field.Invalid(at.Child("maxUnknownPercent"), percent, "must be between 1 and 99"))
	}
	for _, problem := range validation.IsDNS1123Label(o.Fence.Lease.Namespace) {
		errs = append(errs, field.Invalid(at.Child("lease", "namespace"), o.Fence.Lease.Namespace, problem))
	}
	for _, problem := range validation.IsDNS1123Subdomain(o.Fence.Lease.Name) {
		errs = append(errs, field.Invalid(at.Child("lease", "name"), o.Fence.Lease.Name, problem))
	}
	return errs
}
