package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/words"
	"github.com/mooring-ccm/mooring/localcluster/netlab"
	"github.com/mooring-ccm/mooring/providers/metal/power/redfishsim"
)

// services has a Service reached from behind the router.
func (r *rack) services() section {
	return section{name: "services", title: "Services", steps: []step{
		{
			name: "address", title: "a Service of type LoadBalancer gets an address of each family", deadline: stepDeadline,
			run: r.expose,
		},
		{name: "spread", title: "the router spreads both over every node", deadline: stepDeadline, run: r.awaitSpread},
		{
			name: "reached", title: "a client behind the router reaches it over both, and every node answers", deadline: stepDeadline,
			run: r.reach,
		},
	}}
}

func (r *rack) expose(ctx context.Context, s *environment) (string, error) {
	began := time.Now()
	services := s.kubernetes.CoreV1().Services(metav1.NamespaceDefault)
	_, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: shop},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyRequireDualStack),
			AllocateLoadBalancerNodePorts: ptr.To(false),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if err := r.runPods(ctx, s); err != nil {
		return "", err
	}
	err = awaitCloud(ctx, func() (err error) {
		r.service, err = services.Get(ctx, shop, metav1.GetOptions{})
		if err == nil && len(r.addresses()) != 2 {
			err = fmt.Errorf("it has the addresses %v", r.addresses())
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s and %s, after %s", r.addresses()[0].Addr(), r.addresses()[1].Addr(), seconds(time.Since(began))), nil
}

// addresses are those of the Service, as destinations.
func (r *rack) addresses() (all []netip.Prefix) {
	for _, ingress := range r.service.Status.LoadBalancer.Ingress {
		if addr, err := netip.ParseAddr(ingress.IP); err == nil {
			all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return all
}

// podPort is where the server of a pod listens.
const podPort = 8080

// runPods puts a server on every node, and says so in the Service's EndpointSlices, as kube-controller-manager would of pods.
func (r *rack) runPods(ctx context.Context, s *environment) error {
	slicesOf := map[discoveryv1.AddressType]*discoveryv1.EndpointSlice{}
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		slicesOf[family] = &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name: shop + "-" + strings.ToLower(string(family)), Labels: map[string]string{discoveryv1.LabelServiceName: shop},
			},
			AddressType: family,
			Ports: []discoveryv1.EndpointPort{{
				Name: ptr.To("http"), Port: ptr.To[int32](podPort), Protocol: ptr.To(corev1.ProtocolTCP),
			}},
		}
	}
	for _, m := range r.machines {
		addrs, err := r.runPod(ctx, s, m)
		if err != nil {
			return fmt.Errorf("run a pod on %s: %w", m.name, err)
		}
		for _, addr := range addrs {
			family := discoveryv1.AddressTypeIPv6
			if addr.Is4() {
				family = discoveryv1.AddressTypeIPv4
			}
			slicesOf[family].Endpoints = append(slicesOf[family].Endpoints, discoveryv1.Endpoint{
				Addresses: []string{addr.String()}, NodeName: &m.name,
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)},
			})
		}
	}
	for _, slice := range slicesOf {
		_, err := s.kubernetes.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// runPod puts a server into a network of its own on a machine, with addresses of the node's pod CIDRs.
func (r *rack) runPod(ctx context.Context, s *environment, m *machine) (addrs []netip.Addr, err error) {
	var there, here []netip.Prefix
	err = s.awaitNode(ctx, m.name, func(node *corev1.Node) error {
		there, here, addrs = nil, nil, nil
		for _, text := range node.Spec.PodCIDRs {
			cidr, err := netip.ParsePrefix(text)
			if err != nil {
				return err
			}
			gateway := cidr.Addr().Next()
			there, here = append(there, netip.PrefixFrom(gateway, cidr.Bits())), append(here, netip.PrefixFrom(gateway.Next(), cidr.Bits()))
			addrs = append(addrs, gateway.Next())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	pod, err := m.host.Attach(ctx, "p-"+m.name, there, here)
	if err != nil {
		return nil, err
	}
	listener, err := pod.Listen(ctx, netip.AddrPortFrom(netip.IPv6Unspecified(), podPort))
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		_, _ = fmt.Fprintf(w, "%s %s", m.name, client)
	})}
	s.onEnd(func(context.Context) error { return server.Close() })
	s.beside("pod on "+m.name, func(context.Context) error { return unlessClosed(server.Serve(listener)) })
	return addrs, nil
}

func (r *rack) awaitSpread(ctx context.Context, _ *environment) (string, error) {
	began := time.Now()
	if err := r.awaitTable(ctx, func(table netlab.Table) error { return r.spread(table, r.machines) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d next hops each, %s after the address", len(r.machines), seconds(time.Since(began))), nil
}

// spread returns an error unless the router sends what is for the Service to exactly these machines.
func (r *rack) spread(table netlab.Table, over []*machine) error {
	for _, to := range r.addresses() {
		var want []netip.Addr
		for _, m := range over {
			want = append(want, m.address(to))
		}
		if got := table[to]; !slices.Equal(got, want) {
			return fmt.Errorf("the router sends %s to %v instead of %v", to, got, want)
		}
	}
	return nil
}

// settled is how many requests in a row say that a Service is reached.
const settled = 60

func (r *rack) reach(ctx context.Context, s *environment) (string, error) {
	var urls []string
	for _, address := range r.addresses() {
		urls = append(urls, "http://"+net.JoinHostPort(address.Addr().String(), "80")+"/")
	}
	r.sent = s.send(r.outside, urls...)
	last, err := r.sent.settle(ctx)
	if err != nil {
		return "", err
	}
	servers, clients := map[string]int{}, map[string]int{}
	for _, one := range last {
		servers[one.server]++
		clients[one.client]++
	}
	want := []string{client[0].Addr().String(), client[1].Addr().String()}
	if got := slices.Sorted(maps.Keys(clients)); len(servers) != len(r.machines) || !slices.Equal(got, want) {
		return "", fmt.Errorf("the answers came from %v, which saw the clients %v", servers, clients)
	}
	return fmt.Sprintf("%s answered by %s, which saw the client's own addresses",
		words.Count(len(last), "request was", "requests were"), words.Count(len(servers), "node", "nodes")), nil
}

// death ends a machine without a word.
func (r *rack) death() section {
	return section{name: "death", title: "A machine dies", steps: []step{
		{
			name: "out", title: "a machine loses its power, and the router sends nothing to it any more", deadline: stepDeadline,
			run: r.die,
		},
		{name: "lost", title: "all requests are answered again", deadline: stepDeadline, run: r.countLosses},
		{
			name: "taint", title: "its management controller says that it is off: the node has the shutdown taint", deadline: stepDeadline,
			run: r.awaitTaint,
		},
	}}
}

func (r *rack) die(ctx context.Context, s *environment) (string, error) {
	dead := r.dead()
	agent, err := s.agent(dead.name)
	if err != nil {
		return "", err
	}
	r.died = time.Now()
	r.bmc.SetPower(dead.id, redfishsim.Off)
	agent.Silence()
	if err := errors.Join(r.segment.Cut(ctx, dead.host), dead.proxy.kill()); err != nil {
		return "", err
	}
	if err := r.awaitTable(ctx, func(table netlab.Table) error { return r.spread(table, r.living()) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is out of the router's table after %s, by probes alone", dead.name, seconds(time.Since(r.died))), nil
}

func (r *rack) countLosses(ctx context.Context, _ *environment) (string, error) {
	if _, err := r.sent.settle(ctx); err != nil {
		return "", err
	}
	lost, all := r.sent.lost(r.died)
	return fmt.Sprintf("%d of %d were lost, within %s", len(lost), all, seconds(window(lost))), nil
}

func (r *rack) awaitTaint(ctx context.Context, s *environment) (string, error) {
	if err := s.awaitNode(ctx, r.dead().name, func(node *corev1.Node) error { return wantsShutDown(node, true) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("after %s", seconds(time.Since(r.died))), nil
}
