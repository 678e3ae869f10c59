package isolation_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// maxAsked is how often the cloud is asked about an object whose answers are garbage, however long a test takes: the pauses double.
	maxAsked = 25
	// maxLogged is how long a line of the log may be: an error of a plugin with the names of what it is about.
	maxLogged = 40_000
)

// hostile is garbage that a cloud answers about one object.
type hostile struct {
	name, operation string
	fault           pluginfault.Fault
	// want is a part of the warning; empty if the rest of the answer is used.
	want string
}

// garbageOfNodes are answers about instances.
func garbageOfNodes() []hostile {
	huge := strings.Repeat("x", 1<<20)
	return []hostile{
		{"zone", "InstanceMetadata", pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) { m.Zone = huge }), "cannot be the label topology.kubernetes.io/zone"},
		{"control", "InstanceMetadata", pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) { m.Region = "\x1b[2J\u202e" }), "cannot be the label"},
		{"id", "InstanceMetadata", pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) { m.ProviderID += "\xff" }), "is not printable"},
		{"long-id", "InstanceMetadata", pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) { m.ProviderID += huge }), "a provider ID of"},
		{"addresses", "InstanceMetadata", pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) {
			m.NodeAddresses = nil
			for i := range 10_000 {
				m.NodeAddresses = append(m.NodeAddresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.9.%d.%d", i/250, i%250)})
			}
		}), "there are more than"},
		{"no-address", "InstanceMetadata", pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) {
			m.NodeAddresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: huge}, {Type: corev1.NodeExternalIP, Address: "\x00"}}
		}), "none of [InternalIP x"},
		{"error", "InstanceMetadata", pluginfault.Fail(errors.New("\x1b[31m" + strings.Repeat("all of a proxy's page \n", 500_000))), "all of a proxy's page all of"},
		{"panic", "InstanceMetadata", pluginfault.Panic(huge), "panicked in InstanceMetadata"},
		{"labels", "InstanceMetadata", pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) {
			m.AdditionalLabels = map[string]string{huge: huge, "": "", "kubernetes.io/x": "y", "a b": "c"}
			for i := range 20_000 {
				m.AdditionalLabels[fmt.Sprintf("example.com/label-%05d", i)] = strings.Repeat("v", 60)
			}
		}), ""},
		{"one-bad-address", "InstanceMetadata", pluginfault.Describe(func(m *cloudprovider.InstanceMetadata) {
			m.NodeAddresses = append([]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1; reboot"}}, m.NodeAddresses...)
		}), ""},
	}
}

// garbageOfServices are answers about load balancers.
func garbageOfServices() []hostile {
	status := func(ingress ...corev1.LoadBalancerIngress) pluginfault.Fault {
		return pluginfault.Answer(func(*corev1.Service, *corev1.LoadBalancerStatus) *corev1.LoadBalancerStatus {
			return &corev1.LoadBalancerStatus{Ingress: ingress}
		})
	}
	many := make([]corev1.LoadBalancerIngress, 60_000)
	for i := range many {
		many[i].Hostname = fmt.Sprintf("host-%d.example.com", i)
	}
	return []hostile{
		{"no-ip", "EnsureLoadBalancer", status(corev1.LoadBalancerIngress{IP: "x\x1b" + strings.Repeat("x", 1<<20)}), `ingress[0].ip: Invalid value: "x`},
		{"many-ips", "EnsureLoadBalancer", status(many...), ""},
		{"long-error", "EnsureLoadBalancer", pluginfault.Fail(errors.New(strings.Repeat("refused \x00", 1_000_000))), "refused"},
	}
}

// TestHostileAnswers has a cloud answer with garbage about some nodes and Services. Each gets a warning that can be read. The manager deletes no
// node, does not call the cloud again and again, and serves the healthy objects beside them.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	m := start(t, "hostile", faulty.Options{})
	m.populate(t)
	nodes, services := garbageOfNodes(), garbageOfServices()
	for _, bad := range nodes {
		m.cloud.Fault(bad.operation, m.name+"-"+bad.name, bad.fault)
		m.instance(t, bad.name)
	}
	for _, bad := range services {
		m.cloud.Fault(bad.operation, m.key(bad.name), bad.fault)
		m.service(t, bad.name)
	}
	m.serves(t, "beside-garbage")
	for _, bad := range nodes {
		name := m.name + "-" + bad.name
		if bad.want == "" {
			m.awaitInitialized(t, name)
			continue
		}
		checkWarning(t, bad, awaitWarning(t, "Node", name))
	}
	for _, bad := range services {
		checkWarning(t, bad, awaitWarning(t, "Service", m.name+"-"+bad.name))
	}
	m.serves(t, "after-garbage")
	m.awaitProbe(t, "/livez", http.StatusOK)
	for _, bad := range nodes {
		name := m.name + "-" + bad.name
		if asked := len(m.cloud.Calls("InstanceMetadata", name)); asked > maxAsked {
			t.Errorf("the cloud was asked %d times for the node %s", asked, bad.name)
		}
		checkNode(t, name)
	}
	for _, bad := range services {
		if asked := len(m.cloud.Calls("EnsureLoadBalancer", m.key(bad.name))); asked > maxAsked {
			t.Errorf("the cloud was asked %d times for the load balancer %s", asked, bad.name)
		}
	}
	checkLog(t)
}

// checkWarning asserts that a warning says what is wrong in a line that can be shown.
func checkWarning(t *testing.T, bad hostile, message string) {
	t.Helper()
	control := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	if len(message) > 1024 || !utf8.ValidString(message) || strings.IndexFunc(message, control) >= 0 || !strings.Contains(message, bad.want) {
		t.Errorf("%s: the warning of %d bytes is %.300q, want %q", bad.name, len(message), message, bad.want)
	}
}

// checkNode asserts that a node is there and shows no invalid value.
func checkNode(t *testing.T, name string) {
	t.Helper()
	node, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	must.NoError(t, err)
	if !utf8.ValidString(node.Spec.ProviderID) || strings.ContainsRune(node.Spec.ProviderID, utf8.RuneError) || node.Size() > 200_000 {
		t.Errorf("node %s has %d bytes and the provider ID %.100q", name, node.Size(), node.Spec.ProviderID)
	}
	for _, address := range node.Status.Addresses {
		if strings.ContainsAny(address.Address, "; x\x00") && address.Type != corev1.NodeHostName {
			t.Errorf("node %s has the address %.100q", name, address)
		}
	}
}

// checkLog asserts that no line of the managers' log is very long.
func checkLog(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(logFile)
	must.NoError(t, err)
	for line := range strings.SplitSeq(string(content), "\n") {
		if len(line) > maxLogged {
			t.Errorf("a line of %d bytes in the log: %.300s", len(line), line)
		}
	}
}

// TestHostileLists has a cloud list what cannot be true. Nodes whose instances can be told apart join meanwhile, unless the list is refused
// for its size; nothing is taken for gone, and when it ends, all goes on.
func TestHostileLists(t *testing.T) {
	t.Parallel()
	m := start(t, "hostilelist", faulty.Options{Lists: true})
	m.populate(t)
	known := m.instance(t, "known")
	m.awaitInitialized(t, known)
	adding := func(wrong ...provider.Instance) pluginfault.Fault {
		return pluginfault.Answer(func(_ any, page []provider.Instance) []provider.Instance { return append(page, wrong...) })
	}
	for name, test := range map[string]struct {
		fault   pluginfault.Fault
		refused bool
	}{
		"twice":    {fault: adding(withID("twice"), withID("twice"))},
		"no-id":    {fault: adding(provider.Instance{NodeName: "x\x1b"})},
		"scheme":   {fault: adding(withID("scheme://"))},
		"long-id":  {fault: adding(withID(strings.Repeat("x", 1<<20)))},
		"too-many": {fault: adding(manyInstances()...), refused: true},
	} {
		m.cloud.Fault("ListInstances", known, test.fault)
		before := len(m.cloud.Calls("ListInstances", ""))
		waiting, missing := m.instance(t, "waiting-"+name), m.node(t, "missing-"+name)
		if test.refused {
			// The other is asked for alone if the list takes long.
			checkWarning(t, hostile{name: name, want: "list of instances is not usable"}, awaitWarning(t, "Node", missing))
		} else {
			m.awaitInitialized(t, waiting)
			checkWarning(t, hostile{name: name, want: "list of instances does not say what is gone"}, awaitWarning(t, "Node", missing))
		}
		awaitAddress(t, m.service(t, "beside-"+name))
		if asked := len(m.cloud.Calls("ListInstances", "")) - before; asked > 2*maxAsked {
			t.Errorf("%s: %d listings", name, asked)
		}
		m.cloud.Fault("ListInstances", known, pluginfault.Fault{})
		m.awaitInitialized(t, waiting)
	}
	checkNode(t, known)
	m.serves(t, "after-lists")
	checkLog(t)
}

func withID(id string) provider.Instance {
	return provider.Instance{InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: id}}
}

// manyInstances are more than a list may have.
func manyInstances() []provider.Instance {
	many := make([]provider.Instance, 250_001)
	for i := range many {
		many[i] = withID(fmt.Sprintf("many-%d", i))
	}
	return many
}

// TestObjectsAtTheirLimits has objects that are as large as the API server takes. They are served as others are, or get a warning, and the
// healthy beside them are served.
func TestObjectsAtTheirLimits(t *testing.T) {
	t.Parallel()
	m := start(t, "large", faulty.Options{})
	m.populate(t)
	text := func(size int) string { return strings.Repeat("t", size) }
	node := m.instance(t, text(250-len(m.name))+".x", func(node *corev1.Node) { // 253 characters
		node.Annotations = map[string]string{"example.com/all": text(200 << 10)}
		for i := range 1000 {
			node.Labels[fmt.Sprintf("example.com/label-%d", i)] = text(63)
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: fmt.Sprintf("example.com/taint-%d", i), Value: text(63), Effect: corev1.TaintEffectNoSchedule})
			node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: fmt.Sprintf("name-%d.%s", i, text(200))})
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("image-%d", i), text(200)}, SizeBytes: 1})
		}
	})
	full := m.instance(t, "full", func(node *corev1.Node) {
		node.Annotations = map[string]string{"example.com/all": text(256<<10 - len("example.com/all"))}
	})
	service := m.service(t, text(62-len(m.name)), func(service *corev1.Service) {
		no := false
		service.Spec.AllocateLoadBalancerNodePorts = &no
		service.Spec.Ports = nil
		for i := range 2000 {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p-%d-%s", i, text(50)), Port: int32(i + 1)})
			service.Spec.LoadBalancerSourceRanges = append(service.Spec.LoadBalancerSourceRanges,
				fmt.Sprintf("10.%d.%d.0/24", i/250, i%250), fmt.Sprintf("2001:db8:%x::/48", i))
		}
		service.Annotations = map[string]string{"example.com/all": text(255 << 10)}
	})
	m.awaitInitialized(t, node)
	awaitAddress(t, service)
	m.awaitInitialized(t, full)
	m.serves(t, "beside-the-large")
	for _, one := range []string{node, full} {
		if asked := len(m.cloud.Calls("InstanceMetadata", one)); asked > maxAsked {
			t.Errorf("the cloud was asked %d times for the node %.50s", asked, one)
		}
	}
	if asked := len(m.cloud.Calls("EnsureLoadBalancer", service)); asked > 3 {
		t.Errorf("the cloud was asked %d times for the load balancer", asked)
	}
	settled := func() string {
		found, err := admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		must.NoError(t, err)
		return found.ResourceVersion
	}
	before := settled()
	m.serves(t, "meanwhile")
	poll.Until(t, "the large node is no longer written", func(context.Context) error {
		last := before
		before = settled()
		return holds(last == before, "it was written")
	})
	checkLog(t)
}
