package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// Announcement says which nodes are the next hops of an address.
type Announcement struct {
	// NodeSelector selects the nodes that may be next hops of load balancers, among those without the label
	// node.kubernetes.io/exclude-from-external-load-balancers. Routes to pods ignore both. Default: all.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// IgnoreExcludeLabel admits nodes with that label, such as the control-plane nodes of kubeadm. Default: false.
	IgnoreExcludeLabel bool `json:"ignoreExcludeLabel,omitempty"`
	// ClusterNextHops is how many nodes take the traffic of an address of a Service with externalTrafficPolicy Cluster, 1 to 127.
	// More spread the load wider; fewer spare the routers. Default: 8.
	ClusterNextHops int `json:"clusterNextHops,omitempty"`
	// LocalNextHops is how many nodes at most take the traffic of an address of a Service with externalTrafficPolicy Local, 1 to 127. Few
	// routers use more than the default: 64.
	LocalNextHops int `json:"localNextHops,omitempty"`
	// DrainWait is how long a node that is being removed goes on as a next hop of addresses that have no other. After this time it gets no
	// traffic. At most 1h. Default: 30s.
	DrainWait *metav1.Duration `json:"drainWait,omitempty"`
	// DrainOnCordon says that a node drains while it is cordoned (kubectl cordon, kubectl drain). Default: false.
	DrainOnCordon bool `json:"drainOnCordon,omitempty"`
	// PodRoutes says whether the ranges of pod addresses of the nodes are announced. Default: true.
	PodRoutes *bool `json:"podRoutes,omitempty"`
	// PodCIDRs are the prefixes within which pod CIDRs of nodes are announced, because a kubelet may claim any. Default: those of
	// --cluster-cidr, and without these none. A pod CIDR with addresses of a pool, or that overlaps another node's, is not announced.
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Health says how a node that does not work is noticed.
	Health Health `json:"health,omitzero"`
}

// Health says how nodes are probed: kube-proxy of each node that may be a next hop, and the health-check node port of each
// Service with externalTrafficPolicy Local on the nodes that have endpoints of it. The time until a node that died without a word
// is taken out is at most Failures times the greater of Interval and Timeout, plus one Interval: 1.5s by default.
type Health struct {
	// Interval is the time between two probes of one port, 100ms to 1m. Default: 500ms.
	Interval metav1.Duration `json:"interval,omitzero"`
	// Timeout is how long an answer is waited for, 50ms to 1m. Default: 500ms.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Failures is how many probes in a row have to fail before a next hop is taken out, 1 to 100. Silence counts once a probe of another
	// node was answered meanwhile. Default: 2.
	Failures int `json:"failures,omitempty"`
	// Successes is how many probes in a row have to succeed before a next hop is taken in, 1 to 100. Kube-proxy says that it is well before
	// it has written its first rules. A port that was silent is asked ten times as often meanwhile. Default: 3.
	Successes int `json:"successes,omitempty"`
	// KubeProxyProbe says how kube-proxy, or what is there in its place, is asked whether a node works: HTTP asks for /healthz and
	// /livez; TCP opens a connection and closes it; None does not ask: a node that dies stays a next hop of Services with
	// externalTrafficPolicy Cluster. While no node has ever answered, a node counts as working unless it is silent where others
	// refuse connections. Default: HTTP.
	KubeProxyProbe KubeProxyProbe `json:"kubeProxyProbe,omitempty"`
	// KubeProxyPort is where kube-proxy serves /healthz and /livez; its --healthz-bind-address. Default: 10256.
	KubeProxyPort int32 `json:"kubeProxyPort,omitempty"`
	// RefusedWait is how long a next hop stays whose port refuses connections, 0s to 5m. The rules of its kube-proxy go on forwarding while
	// that is restarted. Default: 15s.
	RefusedWait *metav1.Duration `json:"refusedWait,omitempty"`
}

// KubeProxyProbe is how kube-proxy is asked whether a node works.
type KubeProxyProbe string

// The ways to ask.
const (
	ProbeHTTP KubeProxyProbe = "HTTP"
	ProbeTCP  KubeProxyProbe = "TCP"
	ProbeNone KubeProxyProbe = "None"
)

// L2 answers ARP and neighbor solicitations for addresses of load balancers: for clusters without a router that speaks BGP.
type L2 struct {
	// Interfaces are the names of the interfaces on which to answer. Default: those on whose networks there are nodes.
	Interfaces []string `json:"interfaces,omitempty"`
	// Pools are the names of the pools whose addresses are answered for. Default: all.
	Pools []string `json:"pools,omitempty"`
	// Advertisements say by which nodes and on which interfaces addresses are answered for. Without any, by all nodes on all interfaces. With
	// some, an address that none selects is not answered for.
	Advertisements []L2Advertisement `json:"advertisements,omitempty"`
	// GratuitousInterval is how often all hosts of a segment get the answer for each address without asking, for routers that missed a
	// change. 10s to 1h, or 0s for never. It is two broadcast frames for each IPv4 address and one multicast frame for each IPv6 address.
	// Default: 1m.
	GratuitousInterval *metav1.Duration `json:"gratuitousInterval,omitempty"`
}

// L2Advertisement says which addresses are answered for on segments, and how. Several may select one address: a node is a next hop, and an
// interface answers, if one of them selects it.
type L2Advertisement struct {
	// Pools are the names of the pools of the addresses. Default: all that the section has.
	Pools []string `json:"pools,omitempty"`
	// ServiceSelectors select the Services whose addresses are answered for, by their labels; one that matches is enough. Of Services that
	// share an address, one that is selected is enough. Default: all.
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`
	// NodeSelectors select the nodes that may be next hops, by their labels; one that matches is enough. They choose among those of
	// announcement.nodeSelector. Default: all of these.
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`
	// Interfaces are the names of the interfaces of replicas on which to answer. Default: all that the section has.
	Interfaces []string `json:"interfaces,omitempty"`
}

// The defaults of the section announcement, and its bounds.
const (
	defaultClusterNextHops = 8
	defaultLocalNextHops   = 64
	defaultDrainWait       = 30 * time.Second
	defaultProbeInterval   = 500 * time.Millisecond
	defaultProbeTimeout    = 500 * time.Millisecond
	defaultFailures        = 2
	defaultSuccesses       = 3
	kubeProxyPort          = 10256
	defaultRefusedWait     = 15 * time.Second
	maxDrainWait           = time.Hour
	maxRefusedWait         = 5 * time.Minute
	defaultGratuitous      = time.Minute
	minGratuitous          = 10 * time.Second
	maxGratuitous          = time.Hour
	maxInterfaceName       = 15 // IFNAMSIZ without the zero at the end
)

func (a *Announcement) setDefaults() {
	a.ClusterNextHops = cmp.Or(a.ClusterNextHops, defaultClusterNextHops)
	a.LocalNextHops = cmp.Or(a.LocalNextHops, defaultLocalNextHops)
	if a.DrainWait == nil {
		a.DrainWait = &metav1.Duration{Duration: defaultDrainWait}
	}
	if a.PodRoutes == nil {
		a.PodRoutes = ptr.To(true)
	}
	a.Health.setDefaults()
}

func (h *Health) setDefaults() {
	h.Interval.Duration = cmp.Or(h.Interval.Duration, defaultProbeInterval)
	h.Timeout.Duration = cmp.Or(h.Timeout.Duration, defaultProbeTimeout)
	h.Failures = cmp.Or(h.Failures, defaultFailures)
	h.Successes = cmp.Or(h.Successes, defaultSuccesses)
	h.KubeProxyProbe = cmp.Or(h.KubeProxyProbe, ProbeHTTP)
	h.KubeProxyPort = cmp.Or(h.KubeProxyPort, kubeProxyPort)
	if h.RefusedWait == nil {
		h.RefusedWait = &metav1.Duration{Duration: defaultRefusedWait}
	}
}

func (l *L2) setDefaults() {
	if l.GratuitousInterval == nil {
		l.GratuitousInterval = &metav1.Duration{Duration: defaultGratuitous}
	}
}

// WithDefaults returns the section with what it leaves out filled in.
func (a Announcement) WithDefaults() Announcement {
	a.setDefaults()
	return a
}

// Selector returns what NodeSelector selects. It selects everything if there is none, and nothing if it is invalid, which no
// config that was loaded is.
func (a *Announcement) Selector() labels.Selector {
	if a.NodeSelector == nil {
		return labels.Everything()
	}
	selector, err := metav1.LabelSelectorAsSelector(a.NodeSelector)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

func (a *Announcement) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if a.NodeSelector != nil {
		if _, err := metav1.LabelSelectorAsSelector(a.NodeSelector); err != nil {
			errs = append(errs, field.Invalid(path.Child("nodeSelector"), a.NodeSelector, err.Error()))
		}
	}
	errs = append(errs, validateRange(path.Child("clusterNextHops"), a.ClusterNextHops, 1, routing.MaxNextHops)...)
	errs = append(errs, validateRange(path.Child("localNextHops"), a.LocalNextHops, 1, routing.MaxNextHops)...)
	if a.DrainWait != nil {
		errs = append(errs, validateDuration(path.Child("drainWait"), a.DrainWait.Duration, 0, maxDrainWait)...)
	}
	for i, text := range a.PodCIDRs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, field.Invalid(path.Child("podCIDRs").Index(i), text, "must be a prefix such as 10.244.0.0/16"))
		} else if prefix != prefix.Masked() {
			errs = append(errs, field.Invalid(path.Child("podCIDRs").Index(i), text, fmt.Sprintf(
				"the address has bits beyond the prefix length; the prefix is %s", prefix.Masked())))
		}
	}
	return append(errs, a.Health.validate(path.Child("health"))...)
}

// PodPrefixes returns PodCIDRs. What is no prefix is left out, which is nothing in a config that was loaded.
func (a *Announcement) PodPrefixes() []netip.Prefix {
	var prefixes []netip.Prefix
	for _, text := range a.PodCIDRs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

func (h *Health) validate(path *field.Path) field.ErrorList {
	errs := validateDuration(path.Child("interval"), h.Interval.Duration, 100*time.Millisecond, time.Minute)
	errs = append(errs, validateDuration(path.Child("timeout"), h.Timeout.Duration, 50*time.Millisecond, time.Minute)...)
	errs = append(errs, validateRange(path.Child("failures"), h.Failures, 1, 100)...)
	errs = append(errs, validateRange(path.Child("successes"), h.Successes, 1, 100)...)
	probes := []KubeProxyProbe{ProbeHTTP, ProbeTCP, ProbeNone}
	if !slices.Contains(probes, h.KubeProxyProbe) {
		errs = append(errs, field.NotSupported(path.Child("kubeProxyProbe"), h.KubeProxyProbe, probes))
	}
	if h.RefusedWait != nil {
		errs = append(errs, validateDuration(path.Child("refusedWait"), h.RefusedWait.Duration, 0, maxRefusedWait)...)
	}
	return append(errs, validateRange(path.Child("kubeProxyPort"), int(h.KubeProxyPort), 1, 65535)...)
}

func (l *L2) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if every := l.GratuitousInterval; every != nil && every.Duration != 0 {
		errs = append(errs, validateDuration(path.Child("gratuitousInterval"), every.Duration, minGratuitous, maxGratuitous)...)
	}
	errs = append(errs, validateInterfaces(path.Child("interfaces"), l.Interfaces)...)
	errs = append(errs, validatePoolsOnce(path.Child("pools"), l.Pools)...)
	for i := range l.Advertisements {
		one, at := &l.Advertisements[i], path.Child("advertisements").Index(i)
		errs = append(errs, validateInterfaces(at.Child("interfaces"), one.Interfaces)...)
		errs = append(errs, validatePoolsOnce(at.Child("pools"), one.Pools)...)
		errs = append(errs, validateSelectors(at.Child("serviceSelectors"), one.ServiceSelectors)...)
		errs = append(errs, validateSelectors(at.Child("nodeSelectors"), one.NodeSelectors)...)
	}
	return errs
}

// validateInterfaces says which names are none of interfaces, or are there twice.
func validateInterfaces(path *field.Path, names []string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range names {
		at := path.Index(i)
		switch {
		case name == "" || len(name) > maxInterfaceName:
			detail := fmt.Sprintf("must be the name of an interface, 1 to %d characters", maxInterfaceName)
			errs = append(errs, field.Invalid(at, name, detail))
		case seen[name]:
			errs = append(errs, field.Duplicate(at, name))
		}
		seen[name] = true
	}
	return errs
}

// validatePoolsOnce says which names of pools are missing, or are there twice.
func validatePoolsOnce(path *field.Path, names []string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range names {
		at := path.Index(i)
		switch {
		case name == "":
			errs = append(errs, field.Required(at, "must be the name of a pool"))
		case seen[name]:
			errs = append(errs, field.Duplicate(at, name))
		}
		seen[name] = true
	}
	return errs
}

// validateRange says what is wrong with a number that has to be within bounds.
func validateRange(path *field.Path, value, least, most int) field.ErrorList {
	if value < least || value > most {
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be %d to %d", least, most))}
	}
	return nil
}

// validateDuration says what is wrong with a time that has to be within bounds.
func validateDuration(path *field.Path, value, least, most time.Duration) field.ErrorList {
	if value < least || value > most {
		return field.ErrorList{field.Invalid(path, value.String(), fmt.Sprintf("must be %s to %s", least, most))}
	}
	return nil
}
