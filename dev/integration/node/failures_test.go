package node_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// failing is a failure that a node gets an event for, and how it ends.
type failing struct {
	node   nodeagent.Options
	cloud  func(t *testing.T) (cloudprovider.Interface, func())
	reason string
	says   []string
}

func TestFailuresAreToldToTheNodeAndEnd(t *testing.T) {
	outage := fmt.Errorf("connection refused")
	tests := map[string]failing{
		"no instance": {
			node: named("absent"), reason: "InstanceNotFound", says: []string{`"absent"`, "mooring.dev/ignore", "--node-selector"},
			cloud: func(t *testing.T) (cloudprovider.Interface, func()) {
				simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
				return provider, func() { simulated.Create(t, instanceNamed("absent")) }
			},
		},
		"no instance at all": {
			node: named("alone"), reason: "InstanceNotFound", says: []string{"listed no instances at all"},
			cloud: func(t *testing.T) (cloudprovider.Interface, func()) {
				simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(0)})
				return provider, func() { simulated.Create(t, instanceNamed("alone")) }
			},
		},
		"a node IP that does not fit": {
			node:   nodeagent.Options{Name: "node-001", NodeIPs: ips("10.9.9.9", "fd00::9")},
			reason: "NodeIPMismatch", says: []string{"10.9.9.9,fd00::9", "InternalIP 10.0.0.2", "ExternalIP 100.64.0.2", "--node-ip"},
			cloud: func(t *testing.T) (cloudprovider.Interface, func()) {
				simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
				return provider, func() {
					simulated.Change(t, "node-001", func(spec *api.InstanceSpec) {
						spec.Addresses = append(spec.Addresses, api.Address{Type: api.AddressInternalIP, Address: "10.9.9.9"},
							api.Address{Type: api.AddressInternalIP, Address: "fd00::9"})
					})
				}
			},
		},
		"no provider ID": {
			node: named("no-id"), reason: "ProviderIDMissing", says: []string{"no provider ID", "--provider-id"},
			cloud: twoAnswers(&cloudprovider.InstanceMetadata{}, nil),
		},
		"a zone that is no label": {
			node: named("bad-zone"), reason: "InvalidMetadata", says: []string{`"zone one"`, "topology.kubernetes.io/zone"},
			cloud: twoAnswers(&cloudprovider.InstanceMetadata{ProviderID: "plain://1", Zone: "zone one"}, nil),
		},
		"an error": {
			node: named("unlucky"), reason: "CloudError", says: []string{"connection refused"},
			cloud: twoAnswers(nil, outage),
		},
		"two instances of a name": {
			node: named("twin"), reason: "AmbiguousInstance", says: []string{"plain://1", "plain://2", "--provider-id"},
			cloud: func(*testing.T) (cloudprovider.Interface, func()) {
				var fixed atomic.Bool
				twin := func(id string) provider.Instance {
					return provider.Instance{NodeName: "twin", InstanceMetadata: cloudprovider.InstanceMetadata{ProviderID: id}}
				}
				return &listingPlugin{plugin: plugin{name: "plain"}, listed: func() ([]provider.Instance, error) {
					if fixed.Load() {
						return []provider.Instance{twin("plain://1")}, nil
					}
					return []provider.Instance{twin("plain://1"), twin("plain://2")}, nil
				}}, func() { fixed.Store(true) }
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// twoAnswers is a plugin that answers as given, and as it should once that is mended.
func twoAnswers(metadata *cloudprovider.InstanceMetadata, err error) func(*testing.T) (cloudprovider.Interface, func()) {
	return func(*testing.T) (cloudprovider.Interface, func()) {
		var mended atomic.Bool
		return newPlain("plain", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			if mended.Load() {
				return instanceOf(n), nil
			}
			return metadata, err
		}), func() { mended.Store(true) }
	}
}

func (f failing) run(t *testing.T) {
	cloud, mend := f.cloud(t)
	name := f.node.Name
	m := start(t, options{Cloud: cloud, Pool: name})
	join(t, inPool(name, f.node))
	event := waitForEvent(t, name, "Warning "+f.reason+": Could not initialize the node: ")
	for _, part := range f.says {
		if !strings.Contains(event, part) {
			t.Errorf("the event does not say %q:\n%s", part, event)
		}
	}
	poll.Until(t, "the failure is counted again", func(context.Context) error {
		if got := m.Metric(t, "mooring_node_failures_total", "reason", f.reason); got < 2 {
			return fmt.Errorf("it is counted %v times", got)
		}
		return nil
	})
	if done := writes(t, m)[name]; len(done) > 0 {
		t.Errorf("the node was written: %v", done)
	}
	if got := m.Metric(t, "mooring_node_uninitialized"); got != 1 {
		t.Errorf("mooring_node_uninitialized is %v, want 1", got)
	}
	if events := eventsOf(t, name); len(events) != 1 {
		t.Errorf("events %q, want one although it failed more than once", events)
	}
	mend()
	waitInitialized(t, name)
	waitForEvent(t, name, "Normal Synced")
}

// An error that repeating cannot help has the pauses of any other: plugins return such errors for what passes, too.
func TestATerminalErrorIsRetriedAsAnyOtherAndAtOnceWhenTheNodeChanges(t *testing.T) {
	var mended atomic.Bool
	cloud := newPlain("plain", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		if mended.Load() {
			return instanceOf(n), nil
		}
		return nil, &provider.TerminalError{Err: fmt.Errorf("no such instance type")}
	})
	start(t, options{Cloud: cloud})
	join(t, named("terminal"))
	waitForEvent(t, "terminal", "Warning CloudError")
	asked := cloud.counts()["terminal"]
	mended.Store(true)
	change(t, "terminal", label("something", "else"))
	waitInitialized(t, "terminal")
	if again := cloud.counts()["terminal"]; asked > 14 || again > asked+2 { // 5 ms doubles nine times until the event comes
		t.Errorf("asked %d times before the change and %d after", asked, again-asked)
	}
}

func TestAStatusOfAnUnknownProviderIsNotEvenToldToTheNode(t *testing.T) {
	cloud := newPlain("plain", always(nil, fmt.Errorf("not a plain:// ID")))
	m := start(t, options{Cloud: cloud})
	join(t, nodeagent.Options{Name: "stranger", ProviderID: "other://1"})
	poll.Until(t, "the plugin is asked for the node", func(context.Context) error {
		if got := cloud.counts()["stranger"]; got < 2 {
			return fmt.Errorf("it was asked %d times", got)
		}
		return nil
	})
	if events, done := eventsOf(t, "stranger"), writes(t, m)["stranger"]; len(events) > 0 || len(done) > 0 {
		t.Errorf("events %q and writes %v, want none: the node may belong to another manager", events, done)
	}
	if n := get(t, "stranger"); !ownership.Uninitialized(n) {
		t.Error("the taint is gone")
	}
}
