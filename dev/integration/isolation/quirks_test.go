package isolation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// TestQuirks has providers do what real ones did to nodes and Services: see dev/docs/quirks.md. It runs ahead of the
// other tests, which are parallel, so its managers are not beside all of theirs.
func TestQuirks(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"all at once":                   quirksAtOnce,
		"provider IDs have no scheme":   bareIDs,
		"provider IDs in two spellings": twoSpellings,
		"a node is too young":           youngNodeIsTainted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// quirksAtOnce has one provider do all of this.
func quirksAtOnce(t *testing.T) {
	m := start(t, "quirks", faulty.Options{LoadBalancerWrites: 4}, "--node-status-update-frequency=1s", "--node-full-refresh-period=1s",
		"--load-balancer-drift-check-period=2s", "--load-balancer-drift-check-calls=600")
	m.populate(t)
	for name, scenario := range map[string]func(*testing.T, *manager){
		"an address comes twice":                    addressComesTwice,
		"addresses go for a moment":                 addressesGo,
		"a machine is replaced under its name":      machineIsReplaced,
		"a node has no provider ID":                 nodeHasNoProviderID,
		"a status is echoed":                        statusIsEchoed,
		"a working Service becomes invalid":         workingServiceBecomesInvalid,
		"the provider's own object is gone":         providersObjectIsGone,
		"a deletion does its work and fails":        deletionFails,
		"what is there looks otherwise than it was": ingressDiffers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, m)
		})
	}
}

// A node whose addresses come twice has them once.
func addressComesTwice(t *testing.T, m *manager) {
	node := m.instances(t, 1, "twice", "InstanceMetadata", pluginfault.AddressesTwice())[0]
	m.awaitInitialized(t, node)
	poll.Within(t, limit, "the addresses are there", func(ctx context.Context) error {
		found, err := admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return holds(len(found.Status.Addresses) == 2, "they are %v", found.Status.Addresses)
	})
	m.serves(t, "twice")
}

// An answer without addresses takes none from a node. One with a host name only is written, as the reference does, and so is the next one.
func addressesGo(t *testing.T, m *manager) {
	node := m.instance(t, "nameless")
	m.awaitInitialized(t, node)
	has := func(count int) func(context.Context) error {
		return func(ctx context.Context) error {
			addresses, err := internalIPs(ctx, node)
			return errors.Join(err, holds(len(addresses) == count, "they are %v", addresses))
		}
	}
	poll.Within(t, limit, "the addresses are there", has(1))
	lost := make(chan []string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { lost <- withoutIP(ctx, t, node) }()
	m.cloud.Fault("InstanceMetadata", node, pluginfault.Describe(func(wrong *cloudprovider.InstanceMetadata) { wrong.NodeAddresses = nil }))
	m.awaitFaults(t, 3, "InstanceMetadata", node)
	m.serves(t, "nameless")
	cancel()
	if versions := <-lost; len(versions) > 0 {
		t.Errorf("the node had no IP address in its versions %q", versions)
	}
	m.cloud.Fault("InstanceMetadata", node, pluginfault.HostNamesOnly())
	poll.Within(t, limit, "the host name is all there is", has(0))
	m.cloud.Fault("InstanceMetadata", node, pluginfault.Fault{})
	poll.Within(t, limit, "the addresses are back", has(1))
}

func internalIPs(ctx context.Context, node string) (addresses []string, err error) {
	found, err := admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, address := range found.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			addresses = append(addresses, address.Address)
		}
	}
	return addresses, nil
}

// withoutIP watches a node until the context ends, and returns its versions that have no IP address.
func withoutIP(ctx context.Context, t *testing.T, node string) (versions []string) {
	watch, err := admin.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		seen, ok := event.Object.(*corev1.Node)
		if ok && !slices.ContainsFunc(seen.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP }) {
			versions = append(versions, seen.ResourceVersion)
		}
	}
	return versions
}

// A node on a machine that has taken another's name gets the provider ID of that machine.
func machineIsReplaced(t *testing.T, m *manager) {
	name := m.name + "-replaced"
	m.cloud.AddInstance(name)
	m.awaitInitialized(t, m.instance(t, "before-replaced")) // whatever is remembered of instances has been asked for
	m.cloud.RemoveInstance(name)
	m.cloud.AddInstance(name)
	node := m.node(t, "replaced")
	poll.Within(t, limit, "the node joins", func(ctx context.Context) error {
		found, err := admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return holds(found.Spec.ProviderID == m.cloud.ProviderID(name) && found.Spec.ProviderID != "", "its provider ID is %q", found.Spec.ProviderID)
	})
}

// A node that was initialized without a provider ID is a target like any other.
func nodeHasNoProviderID(t *testing.T, m *manager) {
	m.awaitTarget(t, m.node(t, "in-tree", initialized("")))
	m.serves(t, "in-tree")
}

// What an agent has written into the status of a Service stays there, whatever becomes of nodes.
func statusIsEchoed(t *testing.T, m *manager) {
	echo, address := m.key("echo"), "198.51.100.7"
	m.awaitCalls(t, 1, "EnsureLoadBalancer", echo)
	poll.Until(t, "the agent writes the status", func(ctx context.Context) error {
		found, err := admin.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, named(echo), metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		_, err = admin.CoreV1().Services(metav1.NamespaceDefault).UpdateStatus(ctx, found, metav1.UpdateOptions{})
		return err
	})
	m.serves(t, "echo") // nodes come and go meanwhile
	found, err := admin.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), named(echo), metav1.GetOptions{})
	must.NoError(t, err)
	if ingress := found.Status.LoadBalancer.Ingress; len(ingress) != 1 || ingress[0].IP != address {
		t.Errorf("the status is %v, want the agent's %s", ingress, address)
	}
}

// A Service that works and is made invalid goes on to follow nodes.
func workingServiceBecomesInvalid(t *testing.T, m *manager) {
	key := m.service(t, "invalid")
	awaitAddress(t, key)
	m.cloud.Fault("EnsureLoadBalancer", key, pluginfault.Fail(errors.New(`annotation load-balancer-type: unsupported value "lb99"`)))
	harness.ChangeService(t, admin, metav1.NamespaceDefault, named(key), func(s *corev1.Service) {
		s.Annotations = map[string]string{"load-balancer-type": "lb99"}
	})
	m.awaitFaults(t, 2, "EnsureLoadBalancer", key)
	node := m.instance(t, "invalid")
	poll.Within(t, limit, node+" is a target of it", func(context.Context) error {
		return holds(slices.Contains(m.cloud.Targets(key), node), "the targets are %q", m.cloud.Targets(key))
	})
	m.serves(t, "invalid")
}

// A Service whose load balancer cannot be looked at keeps its finalizer, also if the provider cannot find an object of its own.
func providersObjectIsGone(t *testing.T, m *manager) {
	key := m.service(t, "orphan")
	awaitAddress(t, key)
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "cloud-credentials")
	m.cloud.Fault("GetLoadBalancer", key, pluginfault.Fail(gone))
	m.cloud.Fault("EnsureLoadBalancerDeleted", key, pluginfault.Fail(gone))
	must.NoError(t, admin.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), named(key), metav1.DeleteOptions{}))
	m.serves(t, "orphan")
	if _, err := admin.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), named(key), metav1.GetOptions{}); err != nil {
		t.Errorf("the Service should wait for its load balancer: %v", err)
	}
	awaitWarning(t, "Service", named(key))
	for _, operation := range []string{"GetLoadBalancer", "EnsureLoadBalancerDeleted"} {
		m.cloud.Fault(operation, key, pluginfault.Fault{})
	}
	poll.Until(t, "the Service goes", func(ctx context.Context) error { return serviceGone(ctx, key) })
}

func serviceGone(ctx context.Context, key string) error {
	found, err := admin.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, named(key), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("it is there with the finalizers %q", found.GetFinalizers()))
}

// A deletion that fails after the load balancer has gone is repeated before the Service is let go.
func deletionFails(t *testing.T, m *manager) {
	key := m.service(t, "partial")
	awaitAddress(t, key)
	m.cloud.Fault("EnsureLoadBalancerDeleted", key, pluginfault.FailAfter(errors.New("security group sg-1 is in use")))
	must.NoError(t, admin.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), named(key), metav1.DeleteOptions{}))
	m.serves(t, "partial")
	poll.Until(t, "the Service goes", func(ctx context.Context) error { return serviceGone(ctx, key) })
	if count := len(m.cloud.Calls("EnsureLoadBalancerDeleted", key)); count < 3 {
		t.Errorf("the deletion was tried %d times, want a few", count)
	}
	awaitWarning(t, "Service", named(key))
}

// A status that GetLoadBalancer shows otherwise than EnsureLoadBalancer returned it is no reason to ensure again.
func ingressDiffers(t *testing.T, m *manager) {
	m.cloud.Fault("GetLoadBalancer", m.key("named"), pluginfault.OtherIngress())
	key := m.service(t, "named")
	awaitAddress(t, key)
	ensured := len(m.cloud.Calls("EnsureLoadBalancer", key))
	m.awaitCalls(t, 4, "GetLoadBalancer", key)
	m.serves(t, "named")
	if count := len(m.cloud.Calls("EnsureLoadBalancer", key)); count != ensured {
		t.Errorf("the load balancer was ensured %d more times", count-ensured)
	}
}

// awaitCalls waits until an operation has been called so often for an object.
func (m *manager) awaitCalls(t *testing.T, count int, operation, object string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%d calls of %s for %s", count, operation, object), func(context.Context) error {
		calls := m.cloud.Calls(operation, object)
		return holds(len(calls) >= count, "%d were made", len(calls))
	})
}

// bareIDs has provider IDs without a scheme. A node that was proven to be this cloud's is so for the next leader, even if its
// instance has gone meanwhile.
func bareIDs(t *testing.T) {
	m := start(t, "bare", faulty.Options{BareIDs: true, Schemes: []string{}})
	dead, alive := m.instance(t, "dead"), m.instance(t, "alive")
	for _, node := range []string{dead, alive} {
		m.awaitInitialized(t, node)
	}
	m.restart(t, func() {
		m.cloud.RemoveInstance(dead)
		fail(t, dead)
	})
	awaitGone(t, dead)
	if _, err := admin.CoreV1().Nodes().Get(t.Context(), alive, metav1.GetOptions{}); err != nil {
		t.Errorf("the node that lives: %v", err)
	}
}

// twoSpellings has a provider list an instance under another spelling of its provider ID than a node has.
func twoSpellings(t *testing.T) {
	m := start(t, "spelled", faulty.Options{Lists: true})
	m.populate(t)
	node := m.instance(t, "upper")
	m.awaitInitialized(t, node)
	m.cloud.Fault("ListInstances", node, pluginfault.SpelledOtherwise())
	fail(t, node)
	m.serves(t, "spelled") // another node, whose instance is gone, is deleted meanwhile
	if _, err := admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); err != nil {
		t.Errorf("the node whose instance is listed: %v", err)
	}
}

// youngNodeIsTainted has a machine shut down whose node is too young for its deletion.
func youngNodeIsTainted(t *testing.T) {
	m := start(t, "young", faulty.Options{}, "--node-deletion-min-age=1h")
	node := m.instance(t, "stopped")
	m.awaitInitialized(t, node)
	m.cloud.StopInstance(node)
	fail(t, node)
	poll.Within(t, limit, "the node has the shutdown taint", func(ctx context.Context) error {
		found, err := admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		tainted := slices.ContainsFunc(found.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == "node.cloudprovider.kubernetes.io/shutdown"
		})
		return holds(tainted, "its taints are %v", found.Spec.Taints)
	})
}
