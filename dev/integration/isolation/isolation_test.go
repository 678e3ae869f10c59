package isolation_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
)

// many is more than how many calls of one kind the manager makes at once.
const many = 12

// places is how many calls of one kind the manager makes at once at least. Where they hang or are slow, the others wait.
const places = 3

// hanging is more than the places of nodes that join, and fewer than the eight calls of a method that may not return: after these the manager
// makes no more.
const hanging = 7

// TestSideBySide runs one manager whose cloud misbehaves in all these ways at once, and goes on to do so until all are through.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	m := start(t, "side", faulty.Options{LoadBalancerWrites: 4}, append([]string{"--concurrent-node-syncs=4"}, shortDeadlines...)...)
	m.populate(t)
	for name, scenario := range map[string]func(*testing.T, *manager){
		"writes panic":                       writesPanic,
		"reads panic":                        readsPanic,
		"calls end their goroutines":         callsEndTheirGoroutines,
		"reads hang":                         readsHang,
		"writes of load balancers hang":      loadBalancersHang,
		"writes of routes hang":              routesHang,
		"one Service is throttled":           oneServiceIsThrottled,
		"errors of users mention throttling": errorsMentionThrottling,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, m)
		})
	}
}

// services creates Services of which each has a fault when its load balancer is made, and returns their keys.
func (m *manager) services(t *testing.T, count int, name string, fault pluginfault.Fault) []string {
	t.Helper()
	var keys []string
	for i := range count {
		one := fmt.Sprintf("%s-%d", name, i)
		m.cloud.Fault("EnsureLoadBalancer", m.key(one), fault)
		keys = append(keys, m.service(t, one))
	}
	return keys
}

// instances creates nodes with instances of which each has a fault in an operation, and returns their names.
func (m *manager) instances(t *testing.T, count int, name, operation string, fault pluginfault.Fault) []string {
	t.Helper()
	var nodes []string
	for i := range count {
		one := fmt.Sprintf("%s-%d", name, i)
		m.cloud.Fault(operation, m.name+"-"+one, fault)
		nodes = append(nodes, m.instance(t, one))
	}
	return nodes
}

// A panic in a write is the error of its Service. Each used to cost one of the places for calls.
func writesPanic(t *testing.T, m *manager) {
	panicking := m.services(t, many, "panic", pluginfault.Panic("index out of range in a write"))
	m.awaitFaults(t, many, "EnsureLoadBalancer", panicking...)
	m.serves(t, "panic-write")
	if message := awaitWarning(t, "Service", named(panicking[0])); !strings.Contains(message, "index out of range in a write") {
		t.Errorf("the event does not say why: %q", message)
	}
	for _, want := range []string{"index out of range in a write", "pluginfault.(*Plugin).EnsureLoadBalancer"} { // the latter by the stack
		awaitLogged(t, want)
	}
}

// A panic in a read is the error of its node. It used to end the process.
func readsPanic(t *testing.T, m *manager) {
	panicking := m.instances(t, 1, "panic", "InstanceMetadata", pluginfault.Panic(errors.New("nil pointer in a read")))
	m.awaitFaults(t, 2, "InstanceMetadata", panicking...)
	m.serves(t, "panic-read")
	awaitWarning(t, "Node", panicking[0])
	awaitLogged(t, "pluginfault.(*Plugin).InstanceMetadata") // the stack
}

// A call that ends its goroutine never returns, though nothing hangs.
func callsEndTheirGoroutines(t *testing.T, m *manager) {
	nodes := m.instances(t, many, "goexit", "InstanceMetadata", pluginfault.Goexit())
	services := m.services(t, many, "goexit", pluginfault.Goexit())
	m.awaitFaults(t, many, "InstanceMetadata", nodes...)
	m.awaitFaults(t, many, "EnsureLoadBalancer", services...)
	m.serves(t, "goexit")
}

// Reads that hang and ignore their context give their places back at their deadline.
func readsHang(t *testing.T, m *manager) {
	nodes := m.instances(t, hanging, "hang", "InstanceMetadata", pluginfault.Hang())
	m.awaitFaults(t, places, "InstanceMetadata", nodes...)
	m.serves(t, "hang-read")
	awaitWarning(t, "Node", nodes[0])
}

// So do writes, though their Services wait until they return: there is never a second write to the same load balancer.
func loadBalancersHang(t *testing.T, m *manager) {
	const count = 8 // twice as many as the provider bears at once
	hanging := m.services(t, count, "hang", pluginfault.Hang())
	m.awaitFaults(t, places, "EnsureLoadBalancer", hanging...)
	m.serves(t, "hang-write")
	for _, service := range hanging {
		if count := m.cloud.UnderWay("EnsureLoadBalancer", service); count > 1 {
			t.Errorf("%d writes to %s at once", count, service)
		}
	}
}

// Routes that hang hold up neither those of other nodes nor anything else.
func routesHang(t *testing.T, m *manager) {
	hanging := m.instances(t, many, "route", "CreateRoute", pluginfault.Hang())
	for _, node := range hanging {
		m.awaitInitialized(t, node)
	}
	m.awaitFaults(t, places, "CreateRoute", hanging...)
	m.serves(t, "hang-route")
	for _, node := range hanging {
		if count := m.cloud.UnderWay("CreateRoute", node); count > 1 {
			t.Errorf("%d routes to %s are made at once", count, node)
		}
	}
}

// A Service that has to wait waits alone.
func oneServiceIsThrottled(t *testing.T, m *manager) {
	const wait = 10 * time.Minute
	throttled := m.services(t, 1, "throttled", pluginfault.ThrottleInWords(wait))
	m.awaitFaults(t, 1, "EnsureLoadBalancer", throttled...)
	m.serves(t, "throttled")
	awaitWarning(t, "Service", named(throttled[0]))
	if count := len(m.cloud.Calls("EnsureLoadBalancer", throttled[0])); count != 1 {
		t.Errorf("%d calls within the %s that the cloud asked to wait", count, wait)
	}
}

// What is named after throttling is not refused for a quota: such errors slow nothing down.
func errorsMentionThrottling(t *testing.T, m *manager) {
	named := m.services(t, many, "throttling-demo", pluginfault.Fail(errors.New(
		`InvalidConfigurationRequest: the attribute "request_throttling.enabled" of Service "throttling-demo" is not supported`)))
	m.awaitFaults(t, 2*many, "EnsureLoadBalancer", named...) // each has been tried again
	m.serves(t, "mention")
}
