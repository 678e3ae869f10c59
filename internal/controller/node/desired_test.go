package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

func TestDesiredAddresses(t *testing.T) {
	both := addresses(internalIP("10.0.0.1"), externalIP("132.143.154.163"))
	dual := addresses(internalIP("10.0.0.1"), internalIP("10.0.0.2"), internalIP("fd00::1"), externalIP("2001:db8::1"))
	tests := []struct {
		name     string
		node     *corev1.Node
		cloud    []corev1.NodeAddress
		want     []corev1.NodeAddress // nil: left as they are
		mismatch bool
	}{
		{"the cloud's, in its order", newNode(), both, both, false},
		{"several of a type", newNode(), dual, dual, false},
		{"the cloud says none", newNode(withAddresses(both...)), nil, nil, false},
		{
			"the host name is kept if the cloud gives none", newNode(withAddresses(hostName("mine"))), both,
			append(both[:2:2], hostName("mine")), false,
		},
		{
			"the cloud's host name wins", newNode(withAddresses(hostName("mine"))), addresses(hostName("theirs")),
			addresses(hostName("theirs")), false,
		},
		{"no host name at all", newNode(withAddresses(internalIP("10.9.9.9"))), both, both, false},
		{
			"a node IP is first", newNode(withNodeIP("132.143.154.163")), both,
			addresses(externalIP("132.143.154.163"), internalIP("10.0.0.1")), false,
		},
		{
			"a node IP is alone of its type", newNode(withNodeIP("10.0.0.2")), dual,
			addresses(internalIP("10.0.0.2"), externalIP("2001:db8::1")), false,
		},
		{
			"dual stack, in the kubelet's order", newNode(withNodeIP("fd00::1,10.0.0.2")), dual,
			addresses(internalIP("fd00::1"), internalIP("10.0.0.2"), externalIP("2001:db8::1")), false,
		},
		{
			"an IPv6 address in another spelling", newNode(withNodeIP("fd00:0::1")), dual,
			addresses(internalIP("fd00::1"), externalIP("2001:db8::1")), false,
		},
		{
			"a node IP beside a kept host name", newNode(withNodeIP("10.0.0.1"), withAddresses(hostName("mine"))), both,
			append(both[:2:2], hostName("mine")), false,
		},
		{"a node IP that the cloud does not know", newNode(withNodeIP("10.0.0.9")), both, nil, true},
		{"half of a dual-stack node IP", newNode(withNodeIP("10.0.0.1,fd00::9")), dual, nil, true},
		{"a node IP that is none", newNode(withNodeIP("invalid-ip")), both, nil, true},
		{"an empty node IP", newNode(withNodeIP("")), both, nil, true},
		{"two node IPs of one family", newNode(withNodeIP("10.0.0.1,10.0.0.2")), dual, nil, true},
		{
			"a host name that is the node IP does not make up for the cloud", newNode(withTaints(cloudTaint), withNodeIP("10.0.0.9"),
				withAddresses(hostName("10.0.0.9"))), both, nil, true,
		},
		{
			"a node IP, and the cloud says none, to be initialized", newNode(withTaints(cloudTaint), withNodeIP("10.0.0.1")),
			nil, nil, true,
		},
		{"a node IP, and the cloud says none, initialized", newNode(withNodeIP("10.0.0.1")), nil, nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want, err := desire(test.node, &cloudprovider.InstanceMetadata{NodeAddresses: test.cloud, Zone: "z"})
			var mismatch *nodeIPMismatchError
			if errors.As(err, &mismatch) != test.mismatch {
				t.Fatalf("error %v, want a mismatch: %t", err, test.mismatch)
			}
			if diff := cmp.Diff(test.want, want.addresses); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			if want.wellKnown[corev1.LabelTopologyZone] != "z" {
				t.Error("the labels are lost over the addresses")
			}
		})
	}
}

// The API server refuses a status in which a type comes with the same address twice.
func TestAnAddressIsKeptOnce(t *testing.T) {
	twice := addresses(internalIP("10.0.0.1"), externalIP("10.0.0.1"), internalIP("10.0.0.1"), internalIP("10.0.0.2"), hostName("a"), hostName("a"))
	for name, test := range map[string]struct {
		node *corev1.Node
		want []corev1.NodeAddress
	}{
		"in its order":     {newNode(), addresses(internalIP("10.0.0.1"), externalIP("10.0.0.1"), internalIP("10.0.0.2"), hostName("a"))},
		"with a node IP":   {newNode(withNodeIP("10.0.0.2")), addresses(internalIP("10.0.0.2"), externalIP("10.0.0.1"), hostName("a"))},
		"as it is already": {newNode(withAddresses(internalIP("10.0.0.1"))), addresses(internalIP("10.0.0.1"), externalIP("10.0.0.1"), internalIP("10.0.0.2"), hostName("a"))},
	} {
		want, err := desire(test.node, &cloudprovider.InstanceMetadata{NodeAddresses: twice})
		if diff := cmp.Diff(test.want, want.addresses); diff != "" || err != nil {
			t.Errorf("%s: error %v, addresses (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestAMismatchShowsBothAddressSets(t *testing.T) {
	cloud := addresses(internalIP("10.0.0.1"), externalIP("192.0.2.1"))
	_, err := desire(newNode(withNodeIP("10.0.0.2,fd00::2")), &cloudprovider.InstanceMetadata{NodeAddresses: cloud})
	for _, part := range []string{"10.0.0.2,fd00::2", "InternalIP 10.0.0.1", "ExternalIP 192.0.2.1"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not show %q", err, part)
		}
	}
}

func TestTheCloudsAddressesAreNotWrittenTo(t *testing.T) {
	backing := addresses(internalIP("10.0.0.1"), internalIP("10.0.0.2"))
	node := newNode(withAddresses(hostName("mine")))
	if _, err := desire(node, &cloudprovider.InstanceMetadata{NodeAddresses: backing[:1]}); err != nil {
		t.Fatal(err)
	}
	if backing[1] != internalIP("10.0.0.2") {
		t.Error("the host name was written into the memory of the cloud's answer")
	}
}

func TestDesiredLabels(t *testing.T) {
	tests := []struct {
		name      string
		metadata  cloudprovider.InstanceMetadata
		want      desired
		wantError string
	}{
		{
			name:     "type, zone and region under both keys",
			metadata: cloudprovider.InstanceMetadata{InstanceType: "t1.micro", Zone: "us-west-1a", Region: "us-west"},
			want:     desired{wellKnown: newNode(allLabels("t1.micro", "us-west-1a", "us-west")).Labels},
		},
		{name: "what the cloud does not say is not a label", metadata: cloudprovider.InstanceMetadata{}},
		{
			name:     "a zone that is no label value",
			metadata: cloudprovider.InstanceMetadata{InstanceType: "t", Zone: "zone one", Region: "r"},
			want: desired{wellKnown: newNode(withLabels(corev1.LabelInstanceType, "t", corev1.LabelInstanceTypeStable, "t",
				corev1.LabelTopologyRegion, "r", corev1.LabelFailureDomainBetaRegion, "r")).Labels},
			wantError: `the cloud's value "zone one" cannot be the label topology.kubernetes.io/zone`,
		},
		{
			name: "additional labels",
			metadata: cloudprovider.InstanceMetadata{AdditionalLabels: map[string]string{
				"topology.k8s.cp/zone-id": "az1", "my.custom.label/foo": "bar", "plain": "", "app.k8snio/bar": "foo", "k8snio/bar": "foo",
			}},
			want: desired{additional: map[string]string{
				"topology.k8s.cp/zone-id": "az1", "my.custom.label/foo": "bar", "plain": "", "app.k8snio/bar": "foo", "k8snio/bar": "foo",
			}},
		},
		{
			name: "additional labels that no node gets",
			metadata: cloudprovider.InstanceMetadata{AdditionalLabels: map[string]string{
				"topology.kubernetes.io/region": "x", "topology.k8s.io/region": "x", "kubernetes.io/region": "x", "k8s.io/region": "x",
				"not a key": "x", "value": "not a value!", "ok": "yes",
			}},
			want: desired{additional: map[string]string{"ok": "yes"}, discarded: []discardedLabel{
				{key: "k8s.io/region", value: "x"}, {key: "kubernetes.io/region", value: "x"}, {key: "not a key", value: "x"},
				{key: "topology.k8s.io/region", value: "x"}, {key: "topology.kubernetes.io/region", value: "x"},
				{key: "value", value: "not a value!"},
			}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := desire(newNode(withTaints(cloudTaint)), &test.metadata)
			got.initializes = false
			if (err != nil) != (test.wantError != "") || err != nil && !strings.Contains(err.Error(), test.wantError) {
				t.Fatalf("error %v, want %q", err, test.wantError)
			}
			for i := range got.discarded {
				if got.discarded[i].reason == "" {
					t.Errorf("%s was discarded without a reason", got.discarded[i].key)
				}
				got.discarded[i].reason = ""
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(desired{}, discardedLabel{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("desired (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllThatIsWrongComesAtOnce(t *testing.T) {
	node := newNode(withTaints(cloudTaint), withNodeIP("10.0.0.2"))
	_, err := desire(node, &cloudprovider.InstanceMetadata{InstanceType: "a b", Zone: "c d"})
	var mismatch *nodeIPMismatchError
	if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), `"a b"`) || !strings.Contains(err.Error(), `"c d"`) {
		t.Errorf("error %v, want the addresses, the type and the zone in it", err)
	}
}

func TestOnlyANodeThatWaitsGetsAProviderID(t *testing.T) {
	metadata := &cloudprovider.InstanceMetadata{ProviderID: "sim://1"}
	if want, err := desire(newNode(withTaints(cloudTaint)), metadata); err != nil || want.providerID != "sim://1" {
		t.Errorf("provider ID %q, error %v; want sim://1", want.providerID, err)
	}
	if want, err := desire(newNode(), metadata); err != nil || want.providerID != "" {
		t.Errorf("provider ID %q, error %v; want none for a node without the taint", want.providerID, err)
	}
}
