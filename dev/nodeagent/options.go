package nodeagent

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// Options say what node an agent registers, as the flags and the configuration of a kubelet do. Only Name is required.
type Options struct {
	// Name is the name of the Node object.
	Name string
	// Hostname is the Hostname address and the label kubernetes.io/hostname, --hostname-override of a kubelet. Empty
	// means Name.
	Hostname string
	// NodeIPs are --node-ip: none, one address, or one of each family with the preferred one first. They go into the
	// annotation alpha.kubernetes.io/provided-node-ip and, until the cloud's are known, into the addresses.
	NodeIPs []netip.Addr
	// ProviderID is --provider-id. Usually empty: the cloud controller manager finds it out.
	ProviderID string
	// Labels are --node-labels, and override the labels that a kubelet sets itself.
	Labels map[string]string
	// Taints are --register-with-taints. The taint node.cloudprovider.kubernetes.io/uninitialized is added to them.
	Taints []corev1.Taint
	// Capacity are the node's resources. Nil means 4 CPUs, 16 GiB of memory, 100 GiB of ephemeral storage and 110 pods.
	Capacity corev1.ResourceList
	// KubeletVersion is what the node reports. Empty means the version of the local control plane.
	KubeletVersion string

	// LeaseDuration is how long the node's Lease is good; it is renewed four times as often. In whole seconds, zero means
	// the 40 s of a kubelet.
	LeaseDuration time.Duration
	// StatusPeriod is how often the status is compared with what the node should report, and written when it differs.
	// Zero means the 10 s of a kubelet.
	StatusPeriod time.Duration
	// StatusReportPeriod is how often the status is written although nothing changed. Zero means the 5 min of a kubelet.
	StatusReportPeriod time.Duration
}

const (
	defaultLeaseDuration      = 40 * time.Second
	defaultStatusPeriod       = 10 * time.Second
	defaultStatusReportPeriod = 5 * time.Minute
)

// complete fills in defaults and reports everything that is wrong at once.
func (o Options) complete() (Options, error) {
	var wrong field.ErrorList
	if problems := validation.IsDNS1123Subdomain(o.Name); len(problems) > 0 {
		wrong = append(wrong, field.Invalid(field.NewPath("Name"), o.Name, strings.Join(problems, ", ")))
	}
	if err := validateNodeIPs(o.NodeIPs); err != nil {
		wrong = append(wrong, field.Invalid(field.NewPath("NodeIPs"), o.NodeIPs, err.Error()))
	}
	if o.LeaseDuration%time.Second != 0 || o.LeaseDuration < 0 {
		wrong = append(wrong, field.Invalid(field.NewPath("LeaseDuration"), o.LeaseDuration.String(), "must be whole seconds"))
	}
	if o.Hostname == "" {
		o.Hostname = o.Name
	}
	if o.KubeletVersion == "" {
		o.KubeletVersion = localcluster.DefaultVersion
	}
	if o.Capacity == nil {
		o.Capacity = defaultCapacity()
	}
	o.Labels = maps.Clone(o.Labels)
	o.LeaseDuration = orDefault(o.LeaseDuration, defaultLeaseDuration)
	o.StatusPeriod = orDefault(o.StatusPeriod, defaultStatusPeriod)
	o.StatusReportPeriod = orDefault(o.StatusReportPeriod, defaultStatusReportPeriod)
	return o, wrong.ToAggregate()
}

// validateNodeIPs holds a kubelet's rules for --node-ip that need no network interface.
func validateNodeIPs(addrs []netip.Addr) error {
	for _, addr := range addrs {
		if !addr.IsValid() || addr.IsLoopback() || addr.IsMulticast() || addr.IsLinkLocalUnicast() || addr.IsUnspecified() {
			return fmt.Errorf("%s cannot be a node's address", addr)
		}
	}
	switch {
	case len(addrs) > 2:
		return errors.New("at most two addresses, one of each family")
	case len(addrs) == 2 && addrs[0].Unmap().Is4() == addrs[1].Unmap().Is4():
		return errors.New("two addresses must be of different families")
	}
	return nil
}

func defaultCapacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("4"),
		corev1.ResourceMemory:           resource.MustParse("16Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
}

func orDefault(value, byDefault time.Duration) time.Duration {
	if value == 0 {
		return byDefault
	}
	return value
}
