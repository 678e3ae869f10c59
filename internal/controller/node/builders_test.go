package node

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	cloudTaint = corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}
	otherTaint = corev1.Taint{Key: "ImproveCoverageTaint", Value: "true", Effect: corev1.TaintEffectNoSchedule}
)

type edit func(*corev1.Node)

func newNode(edits ...edit) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node0", UID: "uid-0"}}
	for _, edit := range edits {
		edit(node)
	}
	return node
}

func withTaints(taints ...corev1.Taint) edit { return func(n *corev1.Node) { n.Spec.Taints = taints } }
func withID(providerID string) edit          { return func(n *corev1.Node) { n.Spec.ProviderID = providerID } }
func withNodeIP(ip string) edit {
	return withAnnotation(cloudproviderapi.AnnotationAlphaProvidedIPAddr, ip)
}

func withAddresses(addresses ...corev1.NodeAddress) edit {
	return func(n *corev1.Node) { n.Status.Addresses = addresses }
}

func withLabels(keysAndValues ...string) edit {
	return func(n *corev1.Node) {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		for i := 0; i < len(keysAndValues); i += 2 {
			n.Labels[keysAndValues[i]] = keysAndValues[i+1]
		}
	}
}

func withAnnotation(key, value string) edit {
	return func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key] = value
	}
}

func internalIP(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
}

func externalIP(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip}
}

func hostName(name string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeHostName, Address: name}
}

func addresses(addresses ...corev1.NodeAddress) []corev1.NodeAddress { return addresses }

// allLabels are the six well-known labels.
func allLabels(instanceType, zone, region string) edit {
	return withLabels(
		corev1.LabelInstanceTypeStable, instanceType, corev1.LabelInstanceType, instanceType,
		corev1.LabelTopologyZone, zone, corev1.LabelFailureDomainBetaZone, zone,
		corev1.LabelTopologyRegion, region, corev1.LabelFailureDomainBetaRegion, region,
	)
}

// desire is what a node shall show by what a cloud says that vouches for nothing.
func desire(node *corev1.Node, metadata *cloudprovider.InstanceMetadata) (desired, error) {
	return desireFor(node, metadata, "", ownership.Uninitialized(node), ownership.Rules{})
}

// decide is the pure part of a pass over a node.
func decide(node *corev1.Node, metadata *cloudprovider.InstanceMetadata) (plan, error) {
	want, err := desire(node, metadata)
	if err != nil {
		return plan{}, err
	}
	return planFor(node, want, nil), nil
}

// patched applies a plan as the API server does: with the same library, to the node's JSON.
func patched(node *corev1.Node, planned plan) (*corev1.Node, error) {
	encoded, err := json.Marshal(node)
	if err != nil {
		return nil, err
	}
	for _, write := range planned.writes {
		document, err := json.Marshal(write.patch)
		if err != nil {
			return nil, err
		}
		patch, err := jsonpatch.DecodePatch(document)
		if err != nil {
			return nil, err
		}
		if encoded, err = patch.Apply(encoded); err != nil {
			return nil, err
		}
	}
	changed := &corev1.Node{}
	return changed, json.Unmarshal(encoded, changed)
}

// mustPatch is patched for plans that must fit.
func mustPatch(t *testing.T, node *corev1.Node, planned plan) *corev1.Node {
	t.Helper()
	changed, err := patched(node, planned)
	if err != nil {
		t.Fatalf("the plan does not fit the node that it was made for: %v", err)
	}
	return changed
}

// metadataWith is an answer of a plugin that is asked for one instance, with a provider ID.
func metadataWith(providerID string) func() (*cloudprovider.InstanceMetadata, error) {
	return func() (*cloudprovider.InstanceMetadata, error) {
		return &cloudprovider.InstanceMetadata{ProviderID: providerID, Zone: "a", NodeAddresses: addresses(internalIP("10.0.0.1"))}, nil
	}
}
