package demo

import (
	"context"
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

	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// exposed is a Service that a client behind the router asks for.
type exposed struct {
	name   string
	policy corev1.ServiceExternalTrafficPolicy
	// service is as it was when it had its addresses, and sent what became of the client's requests.
	service *corev1.Service
	sent    *traffic
}

// archive is the name of the Service with policy Cluster. The Service with policy Local is named shop.
const archive = "archive"

func exposedServices() (local, cluster *exposed) {
	return &exposed{name: shop, policy: corev1.ServiceExternalTrafficPolicyLocal},
		&exposed{name: archive, policy: corev1.ServiceExternalTrafficPolicyCluster}
}

// all are the Services that are exposed by now.
func (r *rack) all() (all []*exposed) {
	for _, e := range []*exposed{r.local, r.cluster} {
		if e.service != nil {
			all = append(all, e)
		}
	}
	return all
}

// services has Services reached from behind the router.
func (r *rack) services() section {
	section := section{name: "services", title: "Services"}
	for _, e := range []*exposed{r.local, r.cluster} {
		section.steps = append(section.steps, step{
			name: e.name, title: fmt.Sprintf("%s, with externalTrafficPolicy %s, gets an address of each family", e.name, e.policy),
			deadline: stepDeadline,
			run:      func(ctx context.Context, s *environment) (string, error) { return r.expose(ctx, s, e) },
		})
	}
	section.steps = append(section.steps,
		step{name: "spread", title: "the router spreads all of them over every node", deadline: stepDeadline, run: r.awaitSpread},
		step{name: "reached", title: "a client behind the router reaches both Services, and every node answers", deadline: stepDeadline, run: r.reach},
	)
	return section
}

func (r *rack) expose(ctx context.Context, s *environment, e *exposed) (string, error) {
	began := time.Now()
	services := s.kubernetes.CoreV1().Services(metav1.NamespaceDefault)
	_, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: e.name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
			ExternalTrafficPolicy: e.policy, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyRequireDualStack),
			AllocateLoadBalancerNodePorts: ptr.To(false),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if err := r.runPods(ctx, s, e); err != nil {
		return "", err
	}
	err = awaitCloud(ctx, func() (err error) {
		e.service, err = services.Get(ctx, e.name, metav1.GetOptions{})
		if err == nil && len(e.addresses()) != 2 {
			err = fmt.Errorf("it has the addresses %v", e.addresses())
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s and %s, after %s", e.addresses()[0].Addr(), e.addresses()[1].Addr(), seconds(time.Since(began))), nil
}

// addresses are those of the Service, as destinations.
func (e *exposed) addresses() (all []netip.Prefix) {
	for _, ingress := range e.service.Status.LoadBalancer.Ingress {
		if addr, err := netip.ParseAddr(ingress.IP); err == nil {
			all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return all
}

// podPort is where the server of a pod listens.
const podPort = 8080

// runPods puts a server on every node, unless there is one, and says so in the Service's EndpointSlices, as kube-controller-manager
// would of pods.
func (r *rack) runPods(ctx context.Context, s *environment, e *exposed) error {
	slicesOf := map[discoveryv1.AddressType]*discoveryv1.EndpointSlice{}
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		slicesOf[family] = &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name: e.name + "-" + strings.ToLower(string(family)), Labels: map[string]string{discoveryv1.LabelServiceName: e.name},
			},
			AddressType: family,
			Ports: []discoveryv1.EndpointPort{{
				Name: ptr.To("http"), Port: ptr.To[int32](podPort), Protocol: ptr.To(corev1.ProtocolTCP),
			}},
		}
	}
	for _, m := range r.machines {
		if m.pod == nil {
			var err error
			if m.pod, err = r.runPod(ctx, s, m); err != nil {
				return fmt.Errorf("run a pod on %s: %w", m.name, err)
			}
		}
		for _, addr := range m.pod {
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
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// spread returns an error unless the router sends what is for the Services to exactly these machines.
func (r *rack) spread(table netlab.Table, over []*machine) error {
	for _, e := range r.all() {
		if err := r.spreadOf(e, table, over); err != nil {
			return err
		}
	}
	return nil
}

// spreadOf returns an error unless the router spreads a Service over these machines.
func (r *rack) spreadOf(e *exposed, table netlab.Table, over []*machine) error {
	for _, to := range e.addresses() {
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

// answeredInARow is how many requests in a row say that a Service is reached.
const answeredInARow = 60

func (r *rack) reach(ctx context.Context, s *environment) (string, error) {
	for _, e := range r.all() {
		var urls []string
		for _, address := range e.addresses() {
			urls = append(urls, "http://"+net.JoinHostPort(address.Addr().String(), "80")+"/")
		}
		e.sent = s.send(r.outside, urls...)
	}
	answered := 0
	for _, e := range r.all() {
		last, err := e.sent.awaitAnswers(ctx)
		if err != nil {
			return "", err
		}
		servers, clients := map[string]int{}, map[string]int{}
		for _, one := range last {
			servers[one.server]++
			clients[one.client]++
		}
		own := slices.Equal(slices.Sorted(maps.Keys(clients)), []string{client[0].Addr().String(), client[1].Addr().String()})
		if len(servers) != len(r.machines) || e == r.local && !own {
			return "", fmt.Errorf("the answers of %s came from %v, which saw the clients %v", e.name, servers, clients)
		}
		answered += len(last)
	}
	return fmt.Sprintf("%s answered by %s; with policy Local they saw the client's own addresses",
		words.Count(answered, "request was", "requests were"), words.Count(len(r.machines), "node", "nodes")), nil
}
