package bounds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

func TestTrim(t *testing.T) {
	honest := cloudprovider.InstanceMetadata{
		ProviderID: "sim://1", InstanceType: "t", Zone: "z", Region: "r", AdditionalLabels: map[string]string{"a": "b"},
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
	}
	if diff := cmp.Diff(honest, Trim(honest)); diff != "" {
		t.Errorf("an honest instance is trimmed:\n%s", diff)
	}
	huge := strings.Repeat("x", 1<<20)
	lying := cloudprovider.InstanceMetadata{ProviderID: "sim://1", InstanceType: huge, Zone: huge, Region: huge, AdditionalLabels: map[string]string{huge: huge}}
	for i := range 10_000 {
		lying.NodeAddresses = append(lying.NodeAddresses, corev1.NodeAddress{Type: corev1.NodeAddressType(huge), Address: huge})
		lying.AdditionalLabels[fmt.Sprint(i)] = huge[:1000]
	}
	trimmed := Trim(lying)
	if size := Size(&trimmed, ""); size > 1<<20 {
		t.Errorf("an instance of %d bytes", size)
	}
	if len(trimmed.NodeAddresses) <= MaxAddresses || len(trimmed.Zone) <= MaxTextBytes || len(trimmed.AdditionalLabels) == 0 {
		t.Error("what is beyond the bounds is no longer visible")
	}
	if len(lying.NodeAddresses) != 10_000 || len(lying.NodeAddresses[0].Address) != len(huge) {
		t.Error("the argument was changed")
	}
	if diff := cmp.Diff(trimmed, Trim(trimmed)); diff != "" {
		t.Errorf("trimmed again it is another:\n%s", diff)
	}
}
