package node

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/bounds"
	"github.com/mooring-ccm/mooring/internal/message"
)

// metadataOf makes what a cloud may say of three texts.
func metadataOf(id, place, addresses, labels string) *cloudprovider.InstanceMetadata {
	metadata := &cloudprovider.InstanceMetadata{ProviderID: id, AdditionalLabels: map[string]string{}}
	parts := strings.Split(place+"||", "|")
	metadata.InstanceType, metadata.Zone, metadata.Region = parts[0], parts[1], parts[2]
	for one := range strings.SplitSeq(addresses, "|") {
		kind, address, _ := strings.Cut(one, "=")
		metadata.NodeAddresses = append(metadata.NodeAddresses, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
	}
	for one := range strings.SplitSeq(labels, "|") {
		key, value, _ := strings.Cut(one, "=")
		metadata.AdditionalLabels[key] = value
	}
	return metadata
}

// FuzzMetadata has a cloud say anything of an instance. The plan fits the node, has
// a result that plans nothing, touches nothing foreign, and is of bounded size; what cannot be put on the node is an error that names it.
func FuzzMetadata(f *testing.F) {
	long := strings.Repeat("x", 5000)
	f.Add("sim://1", "t|z|r", "InternalIP=10.0.0.1|Hostname=node0", "example.com/rack=7", "10.0.0.1")
	f.Add("sim://"+long, "a b|"+long+"|\x00", "InternalIP=10.0.0.1;x|ExternalIP=|Hostname="+long, long+"="+long, "")
	f.Add("", "||", "", "kubernetes.io/x=y|=|a=b c", "fd00::1,10.0.0.1")
	f.Add("sim://\xff", "t\xff|z|r", "What=10.0.0.1|InternalIP=10.0.0.1|InternalIP=10.0.0.1", "foreign=theirs|a~b/c=d", "x")
	f.Add("sim://a\nb", "t|z|r", "InternalIP=010.0.0.1", strings.Repeat("k", 300)+"=v", "")
	f.Fuzz(func(t *testing.T, id, place, addresses, labels, nodeIP string) {
		node := newNode(withTaints(otherTaint, cloudTaint), withLabels("foreign", "mine"), withAnnotation("foreign", "mine"))
		if nodeIP != "" {
			withNodeIP(strings.ToValidUTF8(nodeIP, "?"))(node)
		}
		metadata := bounds.Trim(*metadataOf(id, place, addresses, labels))
		want, err := desire(node, &metadata)
		checkMessage(t, node, err)
		planned := planFor(node, want, nil)
		after, patchErr := patched(node, planned)
		if patchErr != nil {
			t.Fatalf("the plan does not fit its node: %v", patchErr)
		}
		checkShown(t, after, want)
		encoded, _ := json.Marshal(planned.writes)
		if len(encoded) > 10*(len(labels)+len(addresses)+len(id)+len(place))+10_000 {
			t.Errorf("a plan of %d bytes", len(encoded))
		}
		if err != nil {
			return
		}
		again, err := desire(after, &metadata)
		if more := planFor(after, again, nil); err != nil || len(more.writes) > 0 {
			t.Errorf("planned again: %v, %v", more.changes(), err)
		}
	})
}

// checkMessage asserts that an error has an event that names what is wrong.
func checkMessage(t *testing.T, node *corev1.Node, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := messageOf(node, err)
	if len(text) > kit.MaxMessage || text != message.Line(text, kit.MaxMessage) {
		t.Errorf("an event of %d bytes: %q", len(text), text)
	}
	if reason, advice := reasonOf(err); reason == ReasonCloudError || advice == "" {
		t.Errorf("the reason %s with the advice %q: %v", reason, advice, err)
	}
	if len(err.Error()) > 10_000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// checkShown asserts that a node shows only what the API server takes and what the cloud said, and all that was there of others.
func checkShown(t *testing.T, after *corev1.Node, want desired) {
	t.Helper()
	if after.Labels["foreign"] != "mine" || after.Annotations["foreign"] != "mine" || len(after.Spec.Taints) != 1 || after.Spec.Taints[0] != otherTaint {
		t.Errorf("foreign things have changed: %v, %v, %v", after.Labels, after.Annotations, after.Spec.Taints)
	}
	for key, value := range after.Labels {
		if _, err := (labels.Set{key: value}).AsValidatedSelector(); err != nil {
			t.Errorf("the label %q=%q: %v", key, value, err)
		}
	}
	if after.Spec.ProviderID != want.providerID || !utf8.ValidString(after.Spec.ProviderID) {
		t.Errorf("the provider ID %q became %q", want.providerID, after.Spec.ProviderID)
	}
	if diff := cmp.Diff(want.addresses, after.Status.Addresses, cmpopts.EquateEmpty()); want.addresses != nil && diff != "" {
		t.Errorf("the addresses are others (-want +got):\n%s", diff)
	}
	if valid, err := validAddresses(after.Status.Addresses); err != nil || len(valid) < len(after.Status.Addresses) {
		t.Errorf("addresses %v, of which valid are %v: %v", after.Status.Addresses, valid, err)
	}
}

// What a cloud says of an instance beyond the bounds is left out, and the rest is used.
func TestWhatIsBeyondTheBounds(t *testing.T) {
	good := internalIP("10.0.0.1")
	for name, test := range map[string]struct {
		metadata cloudprovider.InstanceMetadata
		wrong    string
		want     []corev1.NodeAddress
	}{
		"an address that is none":      {cloudprovider.InstanceMetadata{NodeAddresses: addresses(internalIP("10.0.0.1;x"), good)}, "", addresses(good)},
		"only such":                    {cloudprovider.InstanceMetadata{NodeAddresses: addresses(internalIP("x\x1b"))}, `none of [InternalIP x`, nil},
		"a long name":                  {cloudprovider.InstanceMetadata{NodeAddresses: addresses(hostName(strings.Repeat("x", 254)), good)}, "", addresses(good)},
		"thousands of addresses":       {cloudprovider.InstanceMetadata{NodeAddresses: make([]corev1.NodeAddress, 5000)}, "more than 256", nil},
		"a provider ID that JSON bars": {cloudprovider.InstanceMetadata{ProviderID: "sim://\xff", NodeAddresses: addresses(good)}, "is not printable", addresses(good)},
		"a long provider ID":           {cloudprovider.InstanceMetadata{ProviderID: strings.Repeat("x", 5000), NodeAddresses: addresses(good)}, "it has 5000 bytes", addresses(good)},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode(withTaints(cloudTaint))
			want, err := desire(node, &test.metadata)
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%v, want %q", err, test.wrong)
			}
			checkMessage(t, node, err)
			if diff := cmp.Diff(test.want, want.addresses); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
	many := map[string]string{}
	for i := range 3000 {
		many["key-"+strings.Repeat("k", 40)+string(rune('a'+i%26))+strings.Repeat("x", i/26%20)] = strings.Repeat("v", 60)
	}
	for i := range 3000 {
		many["l"+strings.Repeat("0", 20)+string(rune('a'+i%26))+strings.Repeat("y", i/26%30)] = strings.Repeat("v", 63)
	}
	additional, discarded := desireAdditional(many)
	size := 0
	for key, value := range additional {
		size += len(key) + len(value)
	}
	if size > bounds.MaxLabelBytes || len(discarded) == 0 || len(additional)+len(discarded) != len(many) {
		t.Errorf("%d labels of %d bytes, and %d discarded", len(additional), size, len(discarded))
	}
}
