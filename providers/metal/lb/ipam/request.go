package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

const (
	// AnnotationAddresses asks for addresses, separated by commas: of each family as many as it names.
	AnnotationAddresses = "metal.mooring.dev/load-balancer-ips"
	// AnnotationPool asks for addresses of the pool of that name.
	AnnotationPool = "metal.mooring.dev/address-pool"
	// AnnotationSharing lets Services that have the same value share addresses, as long as their ports differ.
	AnnotationSharing = "metal.mooring.dev/allow-shared-ip"
)

// The names that the same wishes have elsewhere, in the order in which they are looked for. Services that move to Mooring keep
// their addresses by them; ours comes first.
var (
	namesOfAddresses = []string{AnnotationAddresses, "metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"}
	namesOfPool      = []string{AnnotationPool, "metallb.io/address-pool", "metallb.universe.tf/address-pool"}
	namesOfSharing   = []string{AnnotationSharing, "metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip"}
)

// annotated returns the value of the first annotation that is there, and its name.
func annotated(service *corev1.Service, names []string) (value, name string) {
	for _, name := range names {
		if value := strings.TrimSpace(service.Annotations[name]); value != "" {
			return value, name
		}
	}
	return "", names[0]
}

// EventForeign says that annotations of other implementations have no effect.
const EventForeign = "ForeignAnnotation"

// foreign are how the names of annotations begin by which other implementations of load balancers are asked for something, and which of these
// they write themselves.
var (
	foreign     = []string{"kube-vip.io/", "lbipam.cilium.io/", "io.cilium/lb-ipam-", "metallb.io/", "metallb.universe.tf/", "purelb.io/", "lb.kubesphere.io/", "eip.openelb.kubesphere.io/"}
	theirWrites = []string{"kube-vip.io/vipHost", "kube-vip.io/active-endpoint", "metallb.io/ip-allocated-from-pool", "metallb.universe.tf/ip-allocated-from-pool"}
)

// maxNamed is how many foreign annotations an event names.
const maxNamed = 5

// ignoredOf returns what is to be said of annotations of other implementations, empty if there is none without effect.
func ignoredOf(service *corev1.Service) string {
	var ignored []string
	for name := range service.Annotations {
		known := slices.Contains(namesOfAddresses, name) || slices.Contains(namesOfPool, name) || slices.Contains(namesOfSharing, name) || slices.Contains(theirWrites, name)
		if !known && slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			ignored = append(ignored, name)
		}
	}
	if len(ignored) == 0 {
		return ""
	}
	slices.Sort(ignored)
	named := strings.Join(ignored[:min(len(ignored), maxNamed)], ", ")
	if more := len(ignored) - maxNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("Annotations of other implementations have no effect: %s; addresses are asked for by %s, pools by %s", named, AnnotationAddresses, AnnotationPool)
}

// requestOf returns what a Service asks for. An error is a *pool.RefusedError that says what cannot be understood.
func requestOf(service *corev1.Service, namespaceLabels labels.Set) (pool.Request, error) {
	asked, err := askedOf(service)
	if err != nil {
		return pool.Request{}, &pool.RefusedError{Reason: pool.Invalid, Message: err.Error()}
	}
	wanted, poolIn := annotated(service, namesOfPool)
	request := pool.Request{
		Holder: holderOf(service), Families: service.Spec.IPFamilies, Asked: asked, Pool: wanted,
		AskedIn: askedIn(service), PoolIn: "annotation " + poolIn,
		Labels: service.Labels, NamespaceLabels: namespaceLabels,
	}
	if policy := service.Spec.IPFamilyPolicy; policy != nil {
		request.Policy = *policy
	}
	return request, nil
}

// maxAsked is how many addresses of an annotation are looked at, and maxShown how many bytes an error shows of an invalid one.
const maxAsked, maxShown = 8, 100

// askedOf returns the addresses that a Service asks for, by its annotation and by spec.loadBalancerIP. It may use both, as long as the
// annotation has the other one, too, or none of its family.
func askedOf(service *corev1.Service) ([]netip.Addr, error) {
	var asked []netip.Addr
	var wrong []error
	add := func(text, where string) {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %q is no address", where, message.Line(text, maxShown)))
			return
		}
		asked = append(asked, addr.Unmap())
	}
	if text, name := annotated(service, namesOfAddresses); text != "" {
		parts := strings.Split(text, ",")
		for _, part := range parts[:min(len(parts), maxAsked)] {
			add(part, "annotation "+name)
		}
		if len(parts) > maxAsked {
			wrong = append(wrong, fmt.Errorf("annotation %s: %d addresses, and a Service can have %d", name, len(parts), maxAsked))
		}
	}
	if text := service.Spec.LoadBalancerIP; text != "" {
		listed := slices.Clone(asked)
		add(text, "spec.loadBalancerIP")
		if own := asked[len(listed):]; len(own) > 0 && !slices.Contains(listed, own[0]) {
			if other := slices.IndexFunc(listed, func(addr netip.Addr) bool { return addr.Is4() == own[0].Is4() }); other >= 0 {
				wrong = append(wrong, fmt.Errorf("the Service asks for %s, and for %s in spec.loadBalancerIP", listed[other], own[0]))
			}
		}
	}
	return asked, errors.Join(wrong...)
}

// askedIn names the fields by which a Service asks for addresses.
func askedIn(service *corev1.Service) string {
	var fields []string
	if text, name := annotated(service, namesOfAddresses); text != "" {
		fields = append(fields, "annotation "+name)
	}
	if service.Spec.LoadBalancerIP != "" {
		fields = append(fields, "spec.loadBalancerIP")
	}
	return strings.Join(fields, " and ")
}

// holderOf returns a Service as those see it who have the same address.
func holderOf(service *corev1.Service) pool.Holder {
	holder := pool.Holder{
		UID: service.UID, Service: types.NamespacedName{Namespace: service.Namespace, Name: service.Name},
		Created: service.CreationTimestamp.Time,
	}
	holder.SharingKey, _ = annotated(service, namesOfSharing)
	if service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		// The same selector selects other pods in another namespace.
		holder.Backend = service.Namespace + "/" + labels.Set(service.Spec.Selector).String()
	}
	for _, port := range service.Spec.Ports {
		holder.Ports = append(holder.Ports, pool.Port{Protocol: port.Protocol, Port: port.Port})
	}
	for _, text := range service.Spec.ExternalIPs[:min(len(service.Spec.ExternalIPs), maxReserved)] {
		if addr, err := netip.ParseAddr(text); err == nil {
			holder.External = append(holder.External, addr.Unmap())
		}
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress { // only managers write it
		for _, port := range ingress.Ports {
			if granted := (pool.Port{Protocol: port.Protocol, Port: port.Port}); !slices.Contains(holder.Granted, granted) {
				holder.Granted = append(holder.Granted, granted)
			}
		}
	}
	return holder
}

// shownBy returns the addresses in a Service's status. Host names are none.
func shownBy(service *corev1.Service) []netip.Addr {
	var shown []netip.Addr
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if addr, err := netip.ParseAddr(ingress.IP); err == nil {
			shown = append(shown, addr.Unmap())
		}
	}
	return shown
}

// statusOf returns the status of a Service that has addresses.
func statusOf(addresses []netip.Addr, ports []corev1.ServicePort) *corev1.LoadBalancerStatus {
	status := &corev1.LoadBalancerStatus{}
	for _, addr := range addresses {
		mode := corev1.LoadBalancerIPModeVIP // kube-proxy may deliver what comes from inside by itself (KEP-1860)
		ingress := corev1.LoadBalancerIngress{IP: addr.String(), IPMode: &mode}
		for _, port := range ports {
			ingress.Ports = append(ingress.Ports, corev1.PortStatus{Port: port.Port, Protocol: port.Protocol})
		}
		status.Ingress = append(status.Ingress, ingress)
	}
	return status
}
