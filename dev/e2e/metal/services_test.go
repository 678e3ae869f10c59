package metal_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// expose makes a Service with an endpoint on each of some machines, and returns it with its addresses.
func (l *fixture) expose(t *testing.T, name string, policy corev1.ServiceExternalTrafficPolicy, on ...*machine) *corev1.Service {
	t.Helper()
	port := corev1.ServicePort{Name: "http", Port: 80}
	_, err := l.client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{port}, ExternalTrafficPolicy: policy,
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyRequireDualStack), AllocateLoadBalancerNodePorts: ptr.To(false),
		},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name + "-" + strings.ToLower(string(family)), Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: family,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
		}
		for _, m := range on {
			addr := m.pod4()
			if family == discoveryv1.AddressTypeIPv6 {
				addr = m.pod6()
			}
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{addr.Addr().String()}, NodeName: &m.Name,
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)},
			})
		}
		_, err := l.client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice, metav1.CreateOptions{})
		must.NoError(t, err)
	}
	var service *corev1.Service
	poll.Until(t, "Service "+name+" has an address of each family", func(ctx context.Context) (err error) {
		if service, err = l.client.CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{}); err == nil && len(service.Status.LoadBalancer.Ingress) != 2 {
			err = fmt.Errorf("its status is %+v", service.Status)
		}
		return err
	})
	return service
}

// hosts returns the destinations of a Service as routers know them.
func hosts(service *corev1.Service) (prefixes []netip.Prefix) {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		addr := netip.MustParseAddr(ingress.IP)
		prefixes = append(prefixes, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return prefixes
}

// urls returns where a client reaches a Service.
func urls(service *corev1.Service) (all []string) {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		all = append(all, "http://"+net.JoinHostPort(ingress.IP, "80")+"/")
	}
	return all
}

// routed waits until the router sends what is for a Service to exactly these machines, and returns how long that took.
func (l *fixture) routed(t *testing.T, service *corev1.Service, to ...*machine) time.Duration {
	t.Helper()
	begin := time.Now()
	poll.Until(t, fmt.Sprintf("the router has %d next hops for Service %s", len(to), service.Name), func(context.Context) error {
		fib := l.router.FIB(t)
		for _, prefix := range hosts(service) {
			var want []netip.Addr
			for _, m := range to {
				addr := m.Addr4().Addr()
				if prefix.Addr().Is6() {
					addr = m.Addr6().Addr()
				}
				want = append(want, addr)
			}
			if got := fib[prefix]; fmt.Sprint(got) != fmt.Sprint(want) && (len(got) != 0 || len(want) != 0) {
				return fmt.Errorf("%s is sent to %v, want %v", prefix, got, want)
			}
		}
		return nil
	})
	return time.Since(begin)
}
