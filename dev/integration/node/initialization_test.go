package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// shown is what a node shows of its instance.
type shown struct {
	ProviderID string
	Addresses  []corev1.NodeAddress
	Labels     map[string]string
	Taints     []corev1.Taint
}

func showing(n *corev1.Node) shown {
	return shown{ProviderID: n.Spec.ProviderID, Addresses: n.Status.Addresses, Labels: labelsOf(n), Taints: n.Spec.Taints}
}

func wellKnown(instanceType, zone, region string) map[string]string {
	return map[string]string{
		corev1.LabelInstanceType: instanceType, corev1.LabelInstanceTypeStable: instanceType,
		corev1.LabelFailureDomainBetaZone: zone, corev1.LabelTopologyZone: zone,
		corev1.LabelFailureDomainBetaRegion: region, corev1.LabelTopologyRegion: region,
	}
}

func TestNodesAreInitializedFromTheSimulatedCloud(t *testing.T) {
	seed := cloudsim.DefaultSeed(6)
	seed.Instances[4].Addresses = []api.Address{
		{Type: api.AddressInternalIP, Address: "10.0.0.6"}, {Type: api.AddressInternalIP, Address: "10.1.0.6"},
		{Type: api.AddressInternalIP, Address: "fd00::6"}, {Type: api.AddressExternalIP, Address: "2001:db8::6"},
	}
	_, provider := harness.Simulate(t, cloudsim.Options{Seed: seed})
	m := start(t, options{Cloud: provider})
	theirs := corev1.Taint{Key: "example.com/gpu", Effect: corev1.TaintEffectNoSchedule}
	join(t,
		named("node-001"),
		nodeagent.Options{Name: "node-002", NodeIPs: ips("10.0.0.3")},
		nodeagent.Options{Name: "node-003", Taints: []corev1.Taint{theirs}, Labels: map[string]string{"team": "a"}},
		nodeagent.Options{Name: "renamed", ProviderID: "sim://i-00000004"},
		nodeagent.Options{Name: "node-005", NodeIPs: ips("fd00::6", "10.0.0.6")},
	)
	address := func(kind corev1.NodeAddressType, value string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: kind, Address: value}
	}
	list := func(addresses ...corev1.NodeAddress) []corev1.NodeAddress { return addresses }
	tests := map[string]shown{
		"node-001": {
			ProviderID: "sim://i-00000001", Labels: wellKnown(cloudsim.TypeSmall, "sim-1a", "sim-1"),
			Addresses: list(address("Hostname", "node-001"), address("InternalIP", "10.0.0.2"), address("ExternalIP", "100.64.0.2")),
		},
		"node-002": { // the node IP is first
			ProviderID: "sim://i-00000002", Labels: wellKnown(cloudsim.TypeSmall, "sim-1b", "sim-1"),
			Addresses: list(address("InternalIP", "10.0.0.3"), address("Hostname", "node-002"), address("ExternalIP", "100.64.0.3")),
		},
		"node-003": {
			ProviderID: "sim://i-00000003", Labels: wellKnown(cloudsim.TypeSmall, "sim-1c", "sim-1"), Taints: []corev1.Taint{theirs},
			Addresses: list(address("Hostname", "node-003"), address("InternalIP", "10.0.0.4"), address("ExternalIP", "100.64.0.4")),
		},
		"renamed": { // found by its provider ID, not by its name
			ProviderID: "sim://i-00000004", Labels: wellKnown(cloudsim.TypeMedium, "sim-1a", "sim-1"),
			Addresses: list(address("Hostname", "node-004"), address("InternalIP", "10.0.0.5"), address("ExternalIP", "100.64.0.5")),
		},
		"node-005": { // dual stack: the kubelet's order, no other of that type, and the host name that the cloud does not know
			ProviderID: "sim://i-00000005", Labels: wellKnown(cloudsim.TypeMedium, "sim-1b", "sim-1"),
			Addresses: list(address("InternalIP", "fd00::6"), address("InternalIP", "10.0.0.6"), address("ExternalIP", "2001:db8::6"),
				address("Hostname", "node-005")),
		},
	}
	tests["node-003"].Labels["team"] = "a"
	for name, want := range tests {
		n := waitInitialized(t, name)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
		got := showing(n)
		if len(got.Taints) == 0 {
			got.Taints = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		waitForEvent(t, name, "Normal Synced: Node synced successfully")
		if diff := cmp.Diff([]string{"update status 200", "update 200"}, writes(t, m)[name]); diff != "" {
			t.Errorf("%s: want the addresses first, then the rest with the taint, and no more (-want +got):\n%s", name, diff)
		}
	}
	for _, histogram := range []string{
		"node_controller_cloud_provider_taint_removal_delay_seconds", "node_controller_initial_node_sync_delay_seconds",
	} {
		if got := m.Metric(t, histogram); got != float64(len(tests)) {
			t.Errorf("%s has %v observations, want one for each node", histogram, got)
		}
	}
	poll.Until(t, "mooring_node_uninitialized is 0, as soon as the watch has brought the last node", func(context.Context) error {
		if got := m.Metric(t, "mooring_node_uninitialized"); got != 0 {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

func TestLegacyPluginsInitializeNodes(t *testing.T) {
	inCloud := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.7.0.1"}}
	labels := wellKnown("old.large", "old-1a", "old-1")
	tests := []struct {
		name   string
		plugin *legacyPlugin
		want   string
	}{
		{"with-ids", &legacyPlugin{plugin: plugin{name: "old"}, id: "12345", addresses: inCloud}, "old://12345"},
		{"without-ids", &legacyPlugin{plugin: plugin{name: "old"}, addresses: inCloud}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := start(t, options{Cloud: test.plugin, Refresh: 200 * time.Millisecond})
			name := "legacy-" + test.name
			join(t, named(name))
			got := showing(waitInitialized(t, name))
			if got.ProviderID != test.want {
				t.Errorf("provider ID %q, want %q", got.ProviderID, test.want)
			}
			if diff := cmp.Diff(labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if got.Addresses[0] != inCloud[0] {
				t.Errorf("addresses %v, want %v and the host name", got.Addresses, inCloud)
			}
			change(t, name, label(corev1.LabelTopologyZone, "wrong"))
			waitFor(t, name, "is back in its zone", hasLabel(corev1.LabelTopologyZone, "old-1a"))
			if failed := m.Metric(t, "mooring_node_failures_total"); failed != 0 {
				t.Errorf("%v failures", failed)
			}
		})
	}
}

func hasLabel(key, value string) func(*corev1.Node) error {
	return func(n *corev1.Node) error {
		if got, there := n.Labels[key]; !there || got != value {
			return fmt.Errorf("the label %s is %q (there: %t), want %q", key, got, there, value)
		}
		return nil
	}
}

func TestPlainPluginsInitializeNodes(t *testing.T) {
	plain := newPlain("plain", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		return &cloudprovider.InstanceMetadata{
			ProviderID: "plain://" + n.Name, InstanceType: "t", Zone: "z", Region: "r",
			NodeAddresses:    []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.7.0.1"}},
			AdditionalLabels: map[string]string{"rack": "7", "node-role.kubernetes.io/master": ""},
		}, nil
	})
	m := start(t, options{Cloud: plain})
	join(t, named("plain-1"))
	got := showing(waitInitialized(t, "plain-1"))
	want := wellKnown("t", "z", "r")
	want["rack"] = "7"
	if diff := cmp.Diff(want, got.Labels); diff != "" || got.ProviderID != "plain://plain-1" {
		t.Errorf("provider ID %q; labels (-want +got):\n%s", got.ProviderID, diff)
	}
	if diff := cmp.Diff(map[string]int{"plain-1": 1}, plain.counts()); diff != "" {
		t.Errorf("calls of the plugin (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"update status 200", "update 200"}, writes(t, m)["plain-1"]); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAPluginWithoutInstancesIsNoFailure(t *testing.T) {
	m := start(t, options{Cloud: &plugin{name: "balancers-only"}})
	join(t, named("untouched"))
	m.Stop() // and it ends without an error
	if n := get(t, "untouched"); !ownership.Uninitialized(n) || len(writes(t, m)["untouched"]) > 0 {
		t.Error("the node was written")
	}
}

func TestNilMetadataLeavesANodeAloneAndSilent(t *testing.T) {
	answer := make(chan *cloudprovider.InstanceMetadata, 100)
	answer <- nil
	plain := newPlain("shy", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		select {
		case metadata := <-answer:
			return metadata, nil
		default:
			return &cloudprovider.InstanceMetadata{ProviderID: "shy://1"}, nil
		}
	})
	m := start(t, options{Cloud: plain})
	join(t, named("shy-1"))
	poll.Until(t, "it has been asked for", func(context.Context) error {
		if plain.counts()["shy-1"] == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	change(t, "shy-1", label("changed", "1"))
	waitInitialized(t, "shy-1") // it is asked for again when it changes, and the second answer is one
	waitForEvent(t, "shy-1", "Normal Synced")
	if events := eventsOf(t, "shy-1"); len(events) != 1 || m.Metric(t, "mooring_node_failures_total") != 0 {
		t.Errorf("events %q and %v failures, want none but the success", events, m.Metric(t, "mooring_node_failures_total"))
	}
}

// Another writer rewrites the taints without the one that it does not know, while the plugin is asked. As with the reference, the node is
// initialized all the same.
func TestATaintTakenWhileThePluginIsAsked(t *testing.T) {
	var once sync.Once
	taken := newPlain("plain", func(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		once.Do(func() {
			change(t, n.Name, func(n *corev1.Node) {
				n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintExternalCloudProvider })
			})
		})
		return instanceOf(n), nil
	})
	start(t, options{Cloud: taken})
	join(t, named("taken"))
	waitFor(t, "taken", "has all that the cloud said", func(n *corev1.Node) error {
		if n.Spec.ProviderID != "plain://taken" || n.Labels[corev1.LabelTopologyZone] != "z" || len(n.Status.Addresses) == 0 {
			return fmt.Errorf("provider ID %q, labels %v, addresses %v", n.Spec.ProviderID, n.Labels, n.Status.Addresses)
		}
		return nil
	})
}
