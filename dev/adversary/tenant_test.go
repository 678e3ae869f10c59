package adversary

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
	_ "github.com/mooring-ccm/mooring/providers/metal" // Registers the provider "metal".
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce"
)

// The namespace of the tenant, and the pools of the config by their first octets: one for all namespaces, and one for the namespace of the victims.
const (
	tenantNamespace = "tenant"
	publicPool      = "198.18.0."
	privatePool     = "198.51.100."
	// sharingKey is known to the tenant, who had its Service squatter with it before any other.
	sharingKey, squatter = "key", "squatter"
	// idle is a Service of the victims that has no endpoint, so no route.
	idle = "idle"
	// mostServices is how many Services the tenant has at a time: more than the pool has addresses.
	mostServices = 24
)

// TestATenant makes the moves of one seed beside a whole manager with load balancers on bare metal, and holds other namespaces' Services and
// what a router learns of them against what they were before.
func TestATenant(t *testing.T) {
	t.Logf("seed %d, %d moves", *seed, *moves)
	rack := startRack(t)
	startManager(t, deploy.MetalRBAC, rack.configFile(t), "--cloud-provider=metal")
	a := &tenant{client: tenantClient(t), draw: mathrand.New(mathrand.NewPCG(*seed, 1)), nodes: rack.nodes}
	t.Cleanup(func() { removeServices(t, tenantNamespace) })
	first := loadBalancer(squatter, 80)
	first.Annotations["metal.mooring.dev/allow-shared-ip"] = sharingKey
	_, err := a.client.CoreV1().Services(tenantNamespace).Create(t.Context(), first, metav1.CreateOptions{})
	must.NoError(t, err)
	poll.Within(t, time.Minute, "the tenant has an address for others to share", func(ctx context.Context) error {
		first, err = a.client.CoreV1().Services(tenantNamespace).Get(ctx, squatter, metav1.GetOptions{})
		return errors.Join(err, poll.Holds(err == nil && len(first.Status.LoadBalancer.Ingress) > 0))
	})
	for name, edit := range map[string]func(*corev1.Service){
		"web":    func(*corev1.Service) {},
		"shop":   func(s *corev1.Service) { s.Annotations["metal.mooring.dev/address-pool"] = "private" },
		"shared": func(s *corev1.Service) { s.Annotations["metal.mooring.dev/allow-shared-ip"] = sharingKey },
		"local": func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, rack.healthPorts[0]
		},
		idle: func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, rack.healthPorts[1]
		},
	} {
		service := loadBalancer(name, 443)
		edit(service)
		_, err := admin.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), service, metav1.CreateOptions{})
		must.NoError(t, err)
		if name == idle {
			continue
		}
		_, err = admin.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(t.Context(), endpoints(name, name, rack.nodes[0]), metav1.CreateOptions{})
		must.NoError(t, err)
	}
	t.Cleanup(func() { removeServices(t, metav1.NamespaceDefault) })
	poll.Within(t, time.Minute, "all Services have addresses and routes", func(context.Context) error { return rack.whole(t) })

	for _, addresses := range rack.observe(t).Addresses {
		a.victims = append(a.victims, addresses)
	}
	slices.Sort(a.victims)
	if shared := rack.observe(t).Addresses["shared"]; shared != first.Status.LoadBalancer.Ingress[0].IP {
		t.Fatalf("the Service that shares has %s", shared)
	}
	made := play(t, a.draw, a.moves(), func() any { return rack.observe(t) })
	t.Logf("the tenant was seen with addresses of its own %d times, and with the shared one %d times", rack.public, rack.shared)
	if *moves >= 100 && min(rack.public, rack.shared) == 0 {
		t.Error("this tenant tries too little")
	}
	for _, never := range []string{"write the Service of another", "write the status of a Service", "write the slice of another"} {
		if made[never] > 0 {
			t.Errorf("%d times the API server let a tenant %s: this test does not stand on what it says", made[never], never)
		}
	}
}

// rack has nodes, of which the first answers to probes, and a router in this process.
type rack struct {
	nodes []string
	// healthPorts are the node ports at which the first node says that it has endpoints.
	healthPorts []int32
	router      *server.BgpServer
	routerPort  int
	// shared and public are how often the tenant was seen with the address that it may share, and with one of its own.
	shared, public int
}

func startRack(t *testing.T) *rack {
	t.Helper()
	r := &rack{}
	host := hostAddress(t)
	kubeProxy := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Second}
	var serving sync.WaitGroup
	for range 2 {
		listener := listenAsNodePort(t, host)
		r.healthPorts = append(r.healthPorts, int32(listener.Addr().(*net.TCPAddr).Port)) //nolint:gosec // a port
		serving.Go(func() { _ = kubeProxy.Serve(listener) })
	}
	t.Cleanup(func() {
		_ = kubeProxy.Close()
		serving.Wait()
	})
	for i, address := range []string{host.String(), "203.0.113.2", "203.0.113.3"} {
		name := fmt.Sprintf("rack-%d", i)
		node, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must.NoError(t, err)
		t.Cleanup(func() {
			must.NoError(t, admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
		})
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		_, err = admin.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		must.NoError(t, err)
		r.nodes = append(r.nodes, name)
	}
	port, err := program.FreePort()
	must.NoError(t, err)
	r.router, r.routerPort = server.NewBgpServer(), port
	go r.router.Serve()
	must.NoError(t, r.router.StartBgp(t.Context(), &api.StartBgpRequest{Global: &api.Global{
		Asn: 64512, RouterId: "192.0.2.254", ListenPort: int32(port), ListenAddresses: []string{"127.0.0.1"}, //nolint:gosec // a port
	}}))
	must.NoError(t, r.router.AddPeer(t.Context(), &api.AddPeerRequest{Peer: &api.Peer{
		Conf: &api.PeerConf{NeighborAddress: "127.0.0.1", PeerAsn: 64512}, Transport: &api.Transport{PassiveMode: true},
		AfiSafis: []*api.AfiSafi{{
			Config:   &api.AfiSafiConfig{Family: &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}, Enabled: true},
			AddPaths: &api.AddPaths{Config: &api.AddPathsConfig{Receive: true}},
		}},
	}}))
	t.Cleanup(func() { must.NoError(t, r.router.StopBgp(context.WithoutCancel(t.Context()), &api.StopBgpRequest{})) })
	return r
}

func (r *rack) configFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.yaml")
	must.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: metal.mooring.dev/v1alpha1
kind: MetalCloudConfig
pools:
- {name: public, addresses: [%[1]s0/28]}
- {name: private, addresses: [%[2]s0/28], namespaces: [default], autoAssign: false}
announcement: {podRoutes: false, health: {interval: 100ms, kubeProxyProbe: None}}
bgp:
  asn: 64512
  peers: [{address: 127.0.0.1, port: %[3]d, asn: 64512, connectRetry: 2s}]
`, publicPool, privatePool, r.routerPort), 0o600))
	return file
}

// hostAddress is an address of this machine at which it may probe itself.
func hostAddress(t *testing.T) netip.Addr {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	must.NoError(t, err)
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Addr().Is4() && prefix.Addr().IsGlobalUnicast() {
			return prefix.Addr()
		}
	}
	t.Fatal("this machine has no IPv4 address but those of its loopback interface")
	return netip.Addr{}
}

// listenAsNodePort listens at a port that a Service may have as its node port.
func listenAsNodePort(t *testing.T, host netip.Addr) net.Listener {
	t.Helper()
	var listener net.Listener
	poll.Until(t, "a node port is free", func(context.Context) (err error) {
		// The API server draws ports for Services from above the first 86 while it can.
		listener, err = net.Listen("tcp", net.JoinHostPort(host.String(), strconv.Itoa(30000+mathrand.IntN(86))))
		return err
	})
	return listener
}

// foreign is all that is not the tenant's own.
type foreign struct {
	// Services are those of the victims, by name, as they were last written, and Addresses their addresses.
	Services, Addresses map[string]string
	// Routes are the next hops that the router has of each address of victims.
	Routes map[string][]string
	// Nodes are the nodes as they were last written.
	Nodes map[string]string
	// Taken are addresses that the tenant's Services have and may not have, and Stray routes to addresses that no Service has from a pool.
	Taken, Stray []string
	Leader       string
}

func (r *rack) observe(t *testing.T) foreign {
	t.Helper()
	seen := foreign{Services: map[string]string{}, Addresses: map[string]string{}, Routes: map[string][]string{}, Nodes: map[string]string{}}
	victims, err := admin.CoreV1().Services(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	owner := map[string]string{}
	for _, service := range victims.Items {
		seen.Services[service.Name] = service.ResourceVersion
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			seen.Addresses[service.Name], owner[ingress.IP] = ingress.IP, service.Name
		}
	}
	own, err := admin.CoreV1().Services(tenantNamespace).List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	for _, service := range own.Items {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			shares := owner[ingress.IP] == "shared" && !slices.ContainsFunc(ingress.Ports, func(port corev1.PortStatus) bool { return port.Port == 443 && port.Protocol == corev1.ProtocolTCP })
			if !strings.HasPrefix(ingress.IP, publicPool) || owner[ingress.IP] != "" && !shares {
				seen.Taken = append(seen.Taken, fmt.Sprintf("%s has %s of %q", service.Name, ingress.IP, owner[ingress.IP]))
			} else if shares {
				r.shared++
			} else {
				r.public++
			}
		}
	}
	must.NoError(t, r.router.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: bgp.RF_IPv4_UC}, func(prefix bgp.NLRI, paths []*apiutil.Path) {
		address := strings.TrimSuffix(prefix.String(), "/32")
		switch {
		case owner[address] != "":
			for _, path := range paths {
				for _, attribute := range path.Attrs {
					if hop, ok := attribute.(*bgp.PathAttributeNextHop); ok && !path.Withdrawal {
						seen.Routes[address] = append(seen.Routes[address], hop.Value.String())
					}
				}
			}
			slices.Sort(seen.Routes[address])
		case !strings.HasPrefix(address, publicPool):
			seen.Stray = append(seen.Stray, prefix.String())
		}
	}))
	nodes, err := admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	for _, node := range nodes.Items {
		seen.Nodes[node.Name] = node.ResourceVersion
	}
	lease, err := admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), leaseName, metav1.GetOptions{})
	must.NoError(t, client.IgnoreNotFound(err))
	seen.Leader = ptr.Deref(lease.Spec.HolderIdentity, "")
	return seen
}

// whole reports what is missing before the first move.
func (r *rack) whole(t *testing.T) error {
	seen := r.observe(t)
	list, err := admin.CoreV1().Services(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	var missing []error
	for _, service := range list.Items {
		announced := slices.ContainsFunc(service.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == announce.ConditionAnnounced && c.Status == metav1.ConditionTrue
		})
		if name := service.Name; name == idle && (seen.Addresses[name] == "" || len(service.Status.Conditions) < 2) {
			missing = append(missing, fmt.Errorf("%s has the address %q, and conditions %v", name, seen.Addresses[name], service.Status.Conditions))
		} else if name != idle && name != "kubernetes" && (!announced || len(seen.Routes[seen.Addresses[name]]) == 0) {
			missing = append(missing, fmt.Errorf("%s has the address %q, routes are %v, and conditions %v", name, seen.Addresses[name], seen.Routes, service.Status.Conditions))
		}
	}
	return errors.Join(missing...)
}

func loadBalancer(name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: port}}},
	}
}

// endpoints is a slice of a Service, with an endpoint on each node.
func endpoints(name, service string, nodes ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](443)}},
	}
	for i, node := range nodes {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.244.%d.%d", i/250, 1+i%250)}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return slice
}

// tenant may write Services, EndpointSlices and pods in one namespace.
type tenant struct {
	client kubernetes.Interface
	draw   *mathrand.Rand
	// victims are addresses of other namespaces' Services.
	victims, nodes []string
}

// tenantClient makes the namespace and the rights of the tenant.
func tenantClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // of the test before
		return clientOf(t, "tenant")
	}
	must.NoError(t, err)
	_, err = admin.RbacV1().Roles(tenantNamespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "pods"}, Verbs: []string{rbacv1.VerbAll}},
		{APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"}, Verbs: []string{rbacv1.VerbAll}},
	}}, metav1.CreateOptions{})
	must.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings(tenantNamespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	return clientOf(t, "tenant")
}

// moves are all that such a tenant may do, and some things that it may not.
func (a *tenant) moves() []move {
	return []move{
		{"make a Service", a.makeService},
		{"share the address of another", a.share},
		{"turn on whom it shares with", a.turn},
		{"change a Service", a.changeService},
		{"change the ports of a Service", a.changePorts},
		{"delete a Service", a.deleteService},
		{"take the finalizer of a Service away", a.takeFinalizer},
		{"make a slice", a.makeSlice},
		{"delete the slices", a.deleteSlices},
		{"make a pod like the manager's", a.makePod},
		{"write the status of a Service", a.writeStatus},
		{"write the Service of another", a.writeVictim},
		{"write the slice of another", a.writeVictimsSlice},
	}
}

// asked is what a Service may ask for in its annotations and fields.
func (a *tenant) asked() string {
	return one(a.draw, one(a.draw, a.victims...), privatePool+"1", privatePool+"9", publicPool+"9", "203.0.113.2", "10.96.0.1", "0.0.0.0", "::1", "224.0.0.1",
		"kubernetes", "", ",", strings.Repeat(privatePool+"1,", 5000))
}

// edit makes one hostile change to a Service.
func (a *tenant) edit(s *corev1.Service) {
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, "tenant", strconv.Itoa(a.draw.IntN(1000)))
	switch a.draw.IntN(12) {
	case 0:
		s.Annotations[one(a.draw, "metal.mooring.dev/load-balancer-ips", "metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs")] = a.asked()
	case 1:
		s.Annotations[one(a.draw, "metal.mooring.dev/address-pool", "metallb.io/address-pool")] = one(a.draw, "private", "public", "nowhere", "")
	case 2, 3:
		s.Annotations["metal.mooring.dev/allow-shared-ip"] = one(a.draw, sharingKey, "other", "", "*")
	case 4:
		s.Spec.LoadBalancerIP = a.asked()
	case 5:
		s.Spec.ExternalTrafficPolicy = one(a.draw, corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster)
	case 6:
		s.Spec.SessionAffinity = one(a.draw, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	case 7:
		s.Spec.ExternalIPs = []string{one(a.draw, a.victims...)}
	case 8:
		s.Spec.LoadBalancerSourceRanges = []string{one(a.draw, "0.0.0.0/0", "203.0.113.0/24", "::/0")}
	case 9:
		s.Labels = map[string]string{one(a.draw, "app", "kubernetes.io/service-name"): one(a.draw, "web", "local")}
	case 10:
		s.Spec.Type = one(a.draw, corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	default:
		s.Annotations[one(a.draw, "mooring.dev/ignore", "mooring.dev/proven", "service.beta.kubernetes.io/load-balancer-source-ranges")] = one(a.draw, "true", "{}", "x")
	}
	for _, port := range s.Spec.Ports {
		if port.Port == 443 && a.draw.IntN(2) == 0 {
			s.Annotations["metal.mooring.dev/allow-shared-ip"] = sharingKey
		}
	}
}

func (a *tenant) makeService(ctx context.Context) error {
	list, err := a.services(ctx)
	if err != nil {
		return err
	}
	if len(list) >= mostServices {
		return a.deleteService(ctx)
	}
	service := loadBalancer("", one[int32](a.draw, 443, 80, 8080))
	service.GenerateName = "t-"
	for range 1 + a.draw.IntN(3) {
		a.edit(service)
	}
	_, err = a.client.CoreV1().Services(tenantNamespace).Create(ctx, service, metav1.CreateOptions{})
	return err
}

// share makes a Service that shares the address of a victim by its key, at a port of its own or the victim's, with a traffic policy and an affinity
// of its own.
func (a *tenant) share(ctx context.Context) error {
	service := loadBalancer("", one[int32](a.draw, 443, 80, 8080, 8443))
	service.GenerateName = "t-"
	service.Annotations["metal.mooring.dev/allow-shared-ip"] = sharingKey
	service.Annotations["metal.mooring.dev/load-balancer-ips"] = one(a.draw, a.victims...)
	service.Spec.ExternalTrafficPolicy = one(a.draw, corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster)
	service.Spec.SessionAffinity = one(a.draw, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	_, err := a.client.CoreV1().Services(tenantNamespace).Create(ctx, service, metav1.CreateOptions{})
	return err
}

func (a *tenant) services(ctx context.Context) ([]corev1.Service, error) {
	list, err := a.client.CoreV1().Services(tenantNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(s corev1.Service) bool { return s.DeletionTimestamp != nil }), nil
}

// change changes one of its Services, and makes one if there is none.
func (a *tenant) change(ctx context.Context, edit func(*corev1.Service)) error {
	list, err := a.services(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return a.makeService(ctx)
	}
	service := &list[a.draw.IntN(len(list))]
	edit(service)
	_, err = a.client.CoreV1().Services(tenantNamespace).Update(ctx, service, metav1.UpdateOptions{})
	return err
}

// turn changes a Service that shares the address of a victim into one that it would not share with.
func (a *tenant) turn(ctx context.Context) error {
	list, err := a.services(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(s corev1.Service) bool {
		return !slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return slices.Contains(a.victims, i.IP) })
	})
	if len(list) == 0 {
		return a.share(ctx)
	}
	service := &list[a.draw.IntN(len(list))]
	switch a.draw.IntN(5) {
	case 0, 1:
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		if _, err := a.client.DiscoveryV1().EndpointSlices(tenantNamespace).Create(ctx, endpoints("t-"+strconv.Itoa(a.draw.Int()), service.Name, a.nodes[0]), metav1.CreateOptions{}); err != nil {
			return err
		}
	case 2:
		service.Spec.Ports = []corev1.ServicePort{{Port: 443}}
	case 3:
		service.Annotations["metal.mooring.dev/allow-shared-ip"] = one(a.draw, "", "other")
	case 4:
		service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}
	_, err = a.client.CoreV1().Services(tenantNamespace).Update(ctx, service, metav1.UpdateOptions{})
	return err
}

func (a *tenant) changeService(ctx context.Context) error { return a.change(ctx, a.edit) }

// changePorts takes ports that others have with which it shares an address.
func (a *tenant) changePorts(ctx context.Context) error {
	return a.change(ctx, func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{{Port: one[int32](a.draw, 443, 80, 8443), TargetPort: intstr.FromInt32(80), Protocol: one(a.draw, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP)}}
	})
}

func (a *tenant) deleteService(ctx context.Context) error {
	list, err := a.services(ctx)
	if list = slices.DeleteFunc(list, func(s corev1.Service) bool { return s.Name == squatter }); err != nil || len(list) == 0 {
		return err
	}
	return client.IgnoreNotFound(a.client.CoreV1().Services(tenantNamespace).Delete(ctx, list[a.draw.IntN(len(list))].Name, metav1.DeleteOptions{}))
}

func (a *tenant) takeFinalizer(ctx context.Context) error {
	return a.change(ctx, func(s *corev1.Service) {
		s.Finalizers = one(a.draw, nil, []string{"example.com/tenant"}, []string{"service.kubernetes.io/load-balancer-cleanup"})
		if a.draw.IntN(2) == 0 {
			s.Finalizers = nil
		}
	})
}

func (a *tenant) makeSlice(ctx context.Context) error {
	of := one(a.draw, "web", "local", "shared", "shop", idle, "kubernetes")
	if list, err := a.services(ctx); err == nil && len(list) > 0 && a.draw.IntN(2) == 0 {
		of = list[a.draw.IntN(len(list))].Name
	}
	nodes := make([]string, one(a.draw, 1, 3, 900))
	for i := range nodes {
		nodes[i] = one(a.draw, one(a.draw, a.nodes...), "no-node", strings.Repeat("x", 253))
	}
	slice := endpoints("", of, nodes...)
	slice.GenerateName = "t-"
	slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: of, UID: "1"}}
	for i := range slice.Endpoints {
		slice.Endpoints[i].Conditions = discoveryv1.EndpointConditions{Ready: one(a.draw, nil, ptr.To(true), ptr.To(false)), Serving: one(a.draw, nil, ptr.To(true)), Terminating: one(a.draw, nil, ptr.To(true))}
	}
	_, err := a.client.DiscoveryV1().EndpointSlices(tenantNamespace).Create(ctx, slice, metav1.CreateOptions{})
	return err
}

func (a *tenant) deleteSlices(ctx context.Context) error {
	return a.client.DiscoveryV1().EndpointSlices(tenantNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

func (a *tenant) makePod(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "cloud-controller-manager-", Labels: map[string]string{"app.kubernetes.io/component": "cloud-controller-manager", "component": "cloud-controller-manager"}},
		Spec:       corev1.PodSpec{NodeName: one(a.draw, a.nodes...), HostNetwork: true, Containers: []corev1.Container{{Name: "cloud-controller-manager", Image: "x"}}},
	}
	if a.draw.IntN(2) == 0 {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
	_, err := a.client.CoreV1().Pods(tenantNamespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

func (a *tenant) writeStatus(ctx context.Context) error {
	list, err := a.services(ctx)
	if err != nil {
		return err
	}
	name := "none"
	if len(list) > 0 {
		name = list[0].Name
	}
	_, err = a.client.CoreV1().Services(tenantNamespace).Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, one(a.draw, a.victims...)), metav1.PatchOptions{}, "status")
	return err
}

func (a *tenant) writeVictim(ctx context.Context) error {
	_, err := a.client.CoreV1().Services(metav1.NamespaceDefault).Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"ports":null}}`), metav1.PatchOptions{})
	return err
}

func (a *tenant) writeVictimsSlice(ctx context.Context) error {
	return a.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Delete(ctx, "local", metav1.DeleteOptions{})
}
