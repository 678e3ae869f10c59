package octavia

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

func requestOf(t *testing.T, service *v1.Service, options annotations.Options) request {
	t.Helper()
	settings, err := annotations.Parse(service, options)
	if err != nil {
		t.Fatal(err)
	}
	return request{cluster: cluster, clusterUID: clusterUID, service: service, nodes: nodes(2, 1), settings: settings, options: options.Defaulted()}
}

// wholeWeb is what web asks for without annotations.
func wholeWeb() model.LoadBalancer {
	const name = "kube_service_kubernetes_default_web"
	childTags := []string{name, "mooring.dev/cluster=kubernetes"}
	listener := func(index string, port, nodePort int) model.Listener {
		return model.Listener{
			Name: "listener_" + index + "_" + name, Protocol: "TCP", Port: port, Tags: childTags, ConnectionLimit: -1,
			Timeouts: &model.Timeouts{ClientData: 50000, MemberConnect: 5000, MemberData: 50000},
			Pool: model.Pool{Name: "pool_" + index + "_" + name, Protocol: "TCP", Algorithm: "ROUND_ROBIN", Tags: childTags, Members: []model.Member{
				{Name: "node-1", Address: "10.0.0.1", Port: nodePort}, {Name: "node-2", Address: "10.0.0.2", Port: nodePort}}},
		}
	}
	return model.LoadBalancer{
		Name: name, Description: "Kubernetes external service default/web from cluster kubernetes", Provider: "amphora",
		Tags:      append(childTags[:2:2], "mooring.dev/service=cluster-uid/web-uid/default/web"),
		Listeners: []model.Listener{listener("0", 80, 30080), listener("1", 443, 30443)},
	}
}

// TestDesired looks at what each part of a Service changes.
func TestDesired(t *testing.T) {
	const p = annotations.Prefix
	each := func(change func(*model.Listener)) func(*model.LoadBalancer) {
		return func(lb *model.LoadBalancer) {
			for i := range lb.Listeners {
				change(&lb.Listeners[i])
			}
		}
	}
	for name, test := range map[string]struct {
		options annotations.Options
		service func(*v1.Service)
		want    func(*model.LoadBalancer)
	}{
		"plain": {annotations.Options{}, func(*v1.Service) {}, func(*model.LoadBalancer) {}},
		"place": {annotations.Options{FlavorID: "f", AvailabilityZone: "z"}, func(s *v1.Service) {
			s.Annotations[p+"subnet-id"], s.Annotations[p+"network-id"], s.Annotations[p+"flavor-id"] = "s", "n", "f2"
		}, func(lb *model.LoadBalancer) {
			lb.VIPSubnetID, lb.VIPNetworkID, lb.FlavorID, lb.AvailabilityZone = "s", "n", "f2", "z"
		}},
		"port": {annotations.Options{SubnetID: "s"}, func(s *v1.Service) { s.Annotations[p+"port-id"] = "port" },
			func(lb *model.LoadBalancer) { lb.VIPPortID = "port" }},
		"address inside": {annotations.Options{Internal: true}, func(s *v1.Service) { s.Spec.LoadBalancerIP = "10.0.0.9" },
			func(lb *model.LoadBalancer) { lb.VIPAddress = "10.0.0.9" }},
		"address outside": {annotations.Options{}, func(s *v1.Service) { s.Spec.LoadBalancerIP = "203.0.113.9" }, func(*model.LoadBalancer) {}},
		"client affinity": {annotations.Options{}, func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP },
			each(func(l *model.Listener) { l.Pool.Persistence = "SOURCE_IP" })},
		"source ranges": {annotations.Options{}, func(s *v1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.7/24", "192.0.2.0/24"}
		}, each(func(l *model.Listener) { l.AllowedCIDRs = []string{"192.0.2.0/24", "198.51.100.0/24"} })},
		"everybody": {annotations.Options{}, func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"0.0.0.0/0"} },
			func(*model.LoadBalancer) {}},
		"PROXY protocol": {annotations.Options{}, func(s *v1.Service) { s.Annotations[annotations.ProxyProtocol] = "v2" },
			each(func(l *model.Listener) { l.Pool.Protocol = "PROXYV2" })},
		"X-Forwarded-For": {annotations.Options{}, func(s *v1.Service) { s.Annotations[annotations.XForwardedFor] = "true" },
			each(func(l *model.Listener) { l.Protocol, l.Pool.Protocol, l.XForwardedFor = "HTTP", "HTTP", true })},
		"TLS for the TCP port": {annotations.Options{TLSContainerRef: "https://keys/v1/secrets/1"},
			func(s *v1.Service) { s.Spec.Ports[1].Protocol = v1.ProtocolUDP },
			func(lb *model.LoadBalancer) {
				lb.Listeners[0].Protocol, lb.Listeners[0].Pool.Protocol, lb.Listeners[0].TLSContainerRef = "TERMINATED_HTTPS", "HTTP", "https://keys/v1/secrets/1"
				lb.Listeners[1].Protocol, lb.Listeners[1].Pool.Protocol = "UDP", "UDP"
			}},
		"node selector": {annotations.Options{NodeSelector: "number=2"}, func(*v1.Service) {},
			each(func(l *model.Listener) { l.Pool.Members = l.Pool.Members[1:] })},
		"other family": {annotations.Options{}, func(s *v1.Service) { s.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol} },
			each(func(l *model.Listener) { l.Pool.Members = []model.Member{} })},
		"monitors": {annotations.Options{CreateMonitor: true}, func(s *v1.Service) { s.Spec.Ports[1].Protocol = v1.ProtocolUDP },
			func(lb *model.LoadBalancer) {
				lb.Listeners[1].Protocol, lb.Listeners[1].Pool.Protocol = "UDP", "UDP"
				for i, kind := range []string{"TCP", "UDP-CONNECT"} {
					lb.Listeners[i].Pool.Monitor = &model.Monitor{Name: model.MonitorName(i, lb.Name), Type: kind, Tags: lb.Listeners[i].Tags,
						Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3}
				}
			}},
		"local traffic": {annotations.Options{CreateMonitor: true}, func(s *v1.Service) {
			s.Spec.Ports, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = s.Spec.Ports[:1], v1.ServiceExternalTrafficPolicyLocal, 32000
		}, func(lb *model.LoadBalancer) {
			lb.Listeners = lb.Listeners[:1]
			pool := &lb.Listeners[0].Pool
			pool.Members[0].MonitorPort, pool.Members[1].MonitorPort = 32000, 32000
			pool.Monitor = &model.Monitor{Name: model.MonitorName(0, lb.Name), Type: "HTTP", Tags: pool.Tags, Delay: 5, Timeout: 3, MaxRetries: 1,
				MaxRetriesDown: 3, URLPath: "/healthz", HTTPMethod: "GET", ExpectedCodes: "200"}
		}},
		"ovn": {annotations.Options{Provider: "ovn", FlavorID: "f", AvailabilityZone: "z"}, func(*v1.Service) {}, func(lb *model.LoadBalancer) {
			lb.Provider = "ovn"
			each(func(l *model.Listener) { l.Timeouts, l.Pool.Algorithm = nil, "SOURCE_IP_PORT" })(lb)
		}},
		"hostname and floating IP": {annotations.Options{}, func(s *v1.Service) {
			s.Annotations[p+"hostname"], s.Annotations[p+"keep-floatingip"] = "web.example", "true"
		}, func(lb *model.LoadBalancer) {
			lb.Tags = append(lb.Tags, "mooring.dev/hostname=web.example", "mooring.dev/keep-floatingip")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			service, want := web(), wholeWeb()
			test.service(service)
			test.want(&want)
			got, err := desired(requestOf(t, service, test.options))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v, difference (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestDesiredErrors looks that all that is wrong with a Service is in one error.
func TestDesiredErrors(t *testing.T) {
	service := web()
	service.Spec.Ports[0].NodePort, service.Spec.Ports[1].NodePort = 0, 0
	service.Spec.LoadBalancerSourceRanges = []string{"everywhere", "192.0.2.0/24", "192.0.2.1"}
	_, err := desired(requestOf(t, service, annotations.Options{}))
	for _, want := range []string{"port 80 has no node port", "port 443 has no node port", `"everywhere" is no range`, `"192.0.2.1" is no range`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
}

// TestNamesAreCut looks that names fit octavia, and that a tag says what was put in.
func TestNamesAreCut(t *testing.T) {
	name := types.NamespacedName{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("s", 63)}
	if got := model.ListenerName(0, model.Name(strings.Repeat("ü", 200), name)); len(got) > 255 || !strings.HasPrefix(got, "listener_0_kube_service_ü") {
		t.Errorf("the name has %d bytes: %s", len(got), got)
	}
	owner := model.Owner{ClusterUID: types.UID(strings.Repeat("c", 36)), UID: types.UID(strings.Repeat("u", 36)), Service: name}
	if got := model.Owners([]string{"other", owner.Tag()}); len(owner.Tag()) > 255 || len(got) != 1 || got[0] != owner {
		t.Errorf("the tag %s of %d bytes says %v", owner.Tag(), len(owner.Tag()), got)
	}
}
