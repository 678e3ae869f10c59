package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// Addresses of the reference's tests.
var (
	allReference  = addresses(hostName("node0.cloud.internal"), internalIP("10.0.0.1"), externalIP("132.143.154.163"))
	ipsReference  = addresses(internalIP("10.0.0.1"), externalIP("132.143.154.163"))
	keptReference = append(ipsReference[:2:2], hostName("node0.cloud.internal"))
)

// The situations of the reference's Test_syncNode, under their names there. Each name stands there once for Instances and
// once, as "[instanceV2] ...", for InstancesV2; how those two are asked is tested in package instances, with the errors
// "provider ID not implemented" and "error getting InstanceMetadata", "nil instanceMetadata provided by InstanceV2", and
// TestGetInstanceMetadata. What is decided does not depend on it. "node ignored", a node that does not wait for anything, is
// in package ownership; that a refresh leaves nodes that wait alone (TestNodeAddressesNotUpdate and its V2) and asks for many at
// once (TestUpdateNodeStatus) is tested below, in package instances, and against a real API server.
var referenceSituations = []struct {
	name     string
	node     *corev1.Node
	metadata cloudprovider.InstanceMetadata
	want     *corev1.Node // nil: an error
}{
	{
		"node initialized with hostname",
		newNode(withTaints(cloudTaint), withAddresses(hostName("nodeoverriden"))),
		cloudprovider.InstanceMetadata{ProviderID: "fake://12345", NodeAddresses: allReference},
		newNode(withID("fake://12345"), withAddresses(allReference...)),
	},
	{
		"node initialized with hostname and cloud provider missing hostname",
		newNode(withTaints(cloudTaint), withAddresses(hostName("nodeoverriden"))),
		cloudprovider.InstanceMetadata{ProviderID: "fake://12345", NodeAddresses: ipsReference},
		newNode(withID("fake://12345"), withAddresses(append(ipsReference[:2:2], hostName("nodeoverriden"))...)),
	},
	{
		"node initialized with provider ID",
		newNode(withTaints(cloudTaint)),
		cloudprovider.InstanceMetadata{ProviderID: "fake://12345", NodeAddresses: allReference},
		newNode(withID("fake://12345"), withAddresses(allReference...)),
	},
	{
		"zone/region topology labels added",
		newNode(withTaints(cloudTaint)),
		cloudprovider.InstanceMetadata{
			ProviderID: "aws://12345", NodeAddresses: allReference, InstanceType: "t1.micro", Zone: "us-west-1a", Region: "us-west",
		},
		newNode(withID("aws://12345"), withAddresses(allReference...), allLabels("t1.micro", "us-west-1a", "us-west")),
	},
	{
		"node addresses",
		newNode(withTaints(otherTaint, cloudTaint), withAddresses(hostName("node0.cloud.internal"))),
		cloudprovider.InstanceMetadata{ProviderID: "fake://12345", NodeAddresses: allReference},
		newNode(withID("fake://12345"), withTaints(otherTaint), withAddresses(allReference...)),
	},
	{
		"provided node IP address",
		newNode(withTaints(otherTaint, cloudTaint), withID("node0.aws.12345"), withNodeIP("10.0.0.1"),
			withAddresses(hostName("node0.cloud.internal"))),
		cloudprovider.InstanceMetadata{ProviderID: "node0.aws.12345", NodeAddresses: ipsReference},
		newNode(withTaints(otherTaint), withID("node0.aws.12345"), withNodeIP("10.0.0.1"), withAddresses(keptReference...)),
	},
	{
		"provided node IP address is not valid",
		newNode(withTaints(otherTaint, cloudTaint), withID("node0.aws.12345"), withNodeIP("invalid-ip")),
		cloudprovider.InstanceMetadata{ProviderID: "node0.aws.12345", NodeAddresses: ipsReference}, nil,
	},
	{
		"provided node IP address is not present",
		newNode(withTaints(otherTaint, cloudTaint), withID("node0.aws.12345"), withNodeIP("10.0.0.2")),
		cloudprovider.InstanceMetadata{ProviderID: "node0.aws.12345", NodeAddresses: ipsReference}, nil,
	},
	{
		"provider ID already set",
		newNode(withTaints(otherTaint, cloudTaint), withID("test-provider-id")),
		cloudprovider.InstanceMetadata{ProviderID: "fake://another", NodeAddresses: allReference},
		newNode(withTaints(otherTaint), withID("test-provider-id"), withAddresses(allReference...)),
	},
	{
		"provider ID not implemented",
		newNode(withTaints(cloudTaint)),
		cloudprovider.InstanceMetadata{},
		newNode(),
	},
	{
		"[instanceV2] provided additional labels",
		newNode(withTaints(otherTaint, cloudTaint), withID("node0.cp.12345"), withNodeIP("10.0.0.1"),
			withAddresses(hostName("node0.cloud.internal"))),
		cloudprovider.InstanceMetadata{
			ProviderID: "node0.cp.12345", NodeAddresses: ipsReference, Zone: "us-west-1a", Region: "us-west",
			AdditionalLabels: map[string]string{"topology.k8s.cp/zone-id": "az1", "my.custom.label/foo": "bar"},
		},
		newNode(withTaints(otherTaint), withID("node0.cp.12345"), withNodeIP("10.0.0.1"), withAddresses(keptReference...), zoneAndRegion,
			withLabels("topology.k8s.cp/zone-id", "az1", "my.custom.label/foo", "bar")),
	},
	{
		"[instanceV2] provided additional labels with labels to discard",
		newNode(withTaints(otherTaint, cloudTaint), withID("node0.cp.12345"), withNodeIP("10.0.0.1"),
			withAddresses(hostName("node0.cloud.internal")), withLabels("my.custom.label/foo", "fizz", "my.custom.label/bar", "foo")),
		cloudprovider.InstanceMetadata{
			ProviderID: "node0.cp.12345", NodeAddresses: ipsReference, Zone: "us-west-1a", Region: "us-west",
			AdditionalLabels: map[string]string{
				"topology.kubernetes.io/region": "us-other-west", "topology.k8s.io/region": "us-other-west",
				"kubernetes.io/region": "us-other-west", "k8s.io/region": "us-other-west",
				"my.custom.label/foo": "bar", "my.custom.label/bar": "foo", "app.k8snio/bar": "foo", "k8snio/bar": "foo",
			},
		},
		newNode(withTaints(otherTaint), withID("node0.cp.12345"), withNodeIP("10.0.0.1"), withAddresses(keptReference...), zoneAndRegion,
			withLabels("my.custom.label/foo", "fizz", "my.custom.label/bar", "foo", "app.k8snio/bar", "foo", "k8snio/bar", "foo")),
	},
}

func TestReferenceSituations(t *testing.T) {
	for _, test := range referenceSituations {
		t.Run(test.name, func(t *testing.T) {
			planned, err := decide(test.node, &test.metadata)
			if test.want == nil {
				if err == nil {
					t.Fatal("no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := mustPatch(t, test.node, planned)
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if writes := len(planned.writes); writes > 2 {
				t.Errorf("%d writes, want two at most", writes)
			}
		})
	}
}

func zoneAndRegion(n *corev1.Node) {
	withLabels(corev1.LabelTopologyZone, "us-west-1a", corev1.LabelFailureDomainBetaZone, "us-west-1a",
		corev1.LabelTopologyRegion, "us-west", corev1.LabelFailureDomainBetaRegion, "us-west")(n)
}

// The reference's Test_reconcileNodeLabels under its names, and what it leaves alone.
func TestStableLabelsFollowBetaLabels(t *testing.T) {
	beta := withLabels(corev1.LabelFailureDomainBetaZone, "foo", corev1.LabelFailureDomainBetaRegion, "bar",
		corev1.LabelInstanceType, "the-best-type")
	tests := []struct {
		name string
		node *corev1.Node
		want *corev1.Node
	}{
		{"requires reconcile", newNode(beta), newNode(allLabels("the-best-type", "foo", "bar"))},
		{
			"doesn't require reconcile", newNode(allLabels("the-best-type", "foo", "bar")),
			newNode(allLabels("the-best-type", "foo", "bar")),
		},
		{
			"require reconcile -- secondary labels are different from primary",
			newNode(beta, withLabels(corev1.LabelTopologyZone, "wrongfoo", corev1.LabelTopologyRegion, "wrongbar",
				corev1.LabelInstanceTypeStable, "the-wrong-type")),
			newNode(allLabels("the-best-type", "foo", "bar")),
		},
		{
			"no beta label", newNode(withLabels(corev1.LabelTopologyZone, "foo")),
			newNode(withLabels(corev1.LabelTopologyZone, "foo")),
		},
		{"no labels", newNode(), newNode()},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			planned := planFor(test.node, desired{}, nil)
			if diff := cmp.Diff(test.want, mustPatch(t, test.node, planned)); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if same := cmp.Equal(test.node, test.want); same != (len(planned.writes) == 0) {
				t.Errorf("%d writes although the node changes: %t", len(planned.writes), !same)
			}
		})
	}
}

// The reference's TestNodeAddressesChangeDetected, and what its comparison by type overlooks.
func TestAddressesAreWrittenWhenTheyDiffer(t *testing.T) {
	tests := []struct {
		name        string
		from, to    []corev1.NodeAddress
		wantWritten bool
	}{
		{
			"equal", addresses(internalIP("10.0.0.1"), externalIP("192.0.2.1")),
			addresses(internalIP("10.0.0.1"), externalIP("192.0.2.1")), false,
		},
		{
			"another address", addresses(internalIP("10.0.0.1"), externalIP("192.0.2.1")),
			addresses(internalIP("10.0.0.1"), externalIP("192.0.2.2")), true,
		},
		{"one less", addresses(internalIP("10.0.0.1"), hostName("h")), addresses(internalIP("10.0.0.1")), true},
		{"one more", addresses(internalIP("10.0.0.1")), addresses(internalIP("10.0.0.1"), hostName("h")), true},
		{
			"types swapped", addresses(externalIP("10.0.0.1"), internalIP("192.0.2.1")),
			addresses(internalIP("10.0.0.1"), externalIP("192.0.2.1")), true,
		},
		{
			"the first of two of a type", addresses(internalIP("10.0.0.1"), internalIP("10.0.0.2")),
			addresses(internalIP("10.0.0.9"), internalIP("10.0.0.2")), true,
		},
		{
			"the order", addresses(internalIP("10.0.0.1"), internalIP("fd00::1")),
			addresses(internalIP("fd00::1"), internalIP("10.0.0.1")), false,
		},
		{"none yet", nil, addresses(internalIP("10.0.0.1")), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := newNode(withAddresses(test.from...))
			planned := planFor(node, desired{addresses: test.to}, nil)
			if written := len(planned.writes) > 0; written != test.wantWritten {
				t.Fatalf("written: %t, want %t", written, test.wantWritten)
			}
			if diff := cmp.Diff(test.to, mustPatch(t, node, planned).Status.Addresses); test.wantWritten && diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

// The order counts where it is the kubelet's: its node IPs come first.
func TestTheNodeIPComesFirst(t *testing.T) {
	for name, test := range map[string]struct {
		nodeIP      string
		from, cloud []corev1.NodeAddress
		want        []corev1.NodeAddress // nil: nothing is written
	}{
		"it is first": {
			nodeIP: "10.0.0.1", from: addresses(internalIP("10.0.0.1"), hostName("n"), externalIP("192.0.2.1")),
			cloud: addresses(externalIP("192.0.2.1"), internalIP("10.0.0.1"), internalIP("10.0.0.2")),
		},
		"it is not first": {
			nodeIP: "10.0.0.1", from: addresses(hostName("n"), internalIP("10.0.0.1"), externalIP("192.0.2.1")),
			cloud: addresses(externalIP("192.0.2.1"), internalIP("10.0.0.1")),
			want:  addresses(internalIP("10.0.0.1"), externalIP("192.0.2.1"), hostName("n")),
		},
		"two in another order": {
			nodeIP: "fd00::1,10.0.0.1", from: addresses(internalIP("10.0.0.1"), internalIP("fd00::1"), hostName("n")),
			cloud: addresses(internalIP("10.0.0.1"), internalIP("fd00::1")),
			want:  addresses(internalIP("fd00::1"), internalIP("10.0.0.1"), hostName("n")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode(withNodeIP(test.nodeIP), withAddresses(test.from...))
			planned, err := decide(node, &cloudprovider.InstanceMetadata{NodeAddresses: test.cloud})
			if err != nil || (test.want != nil) != (len(planned.writes) > 0) {
				t.Fatalf("%d writes, error %v; want one: %t", len(planned.writes), err, test.want != nil)
			}
			if diff := cmp.Diff(test.want, mustPatch(t, node, planned).Status.Addresses); test.want != nil && diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARefreshIsNotConcernedWithNodesThatWait(t *testing.T) {
	reconciler := newReconciler(Options{Owners: ownership.Rules{ProviderName: "sim"}})
	for name, test := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"initialized": {newNode(withID("sim://1")), true},
		"waiting":     {newNode(withID("sim://1"), withTaints(cloudTaint)), false},
		"foreign":     {newNode(withID("sim://1"), withAnnotation(ownership.AnnotationIgnore, "true")), false},
		"in doubt":    {newNode(withID("other://1")), true},
	} {
		if got := reconciler.refreshes(test.node, reconciler.owners.Decide(test.node)); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
