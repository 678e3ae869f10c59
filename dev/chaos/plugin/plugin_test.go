package plugin

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
)

// hasQuirks returns what sets the quirks of the plugin.
func hasQuirks(t *testing.T) func(quirks ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "quirks")
	t.Setenv(misbehavior.QuirksFile, file)
	return func(quirks ...string) {
		if err := misbehavior.WriteQuirks(file, quirks); err != nil {
			t.Fatal(err)
		}
	}
}

// The plugin has the quirks that are written, and those only.
func TestQuirksComeAndGo(t *testing.T) {
	set := hasQuirks(t)
	if has(misbehavior.NoIP) {
		t.Error("there is a quirk before there is a file")
	}
	set(misbehavior.NoIP, misbehavior.Terse)
	if !has(misbehavior.NoIP) || !has(misbehavior.Terse) || has(misbehavior.Deaf) {
		t.Errorf("it has %q", quirks())
	}
	set()
	if has(misbehavior.NoIP) {
		t.Error("the quirk does not end")
	}
}

var metadata = cloudprovider.InstanceMetadata{
	ProviderID: sim.ProviderID("i-1"), InstanceType: "small", Zone: "z", Region: "r", AdditionalLabels: map[string]string{"a": "1", "b": "2"},
	NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n-1"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
}

func TestDescriptions(t *testing.T) {
	for quirk, changed := range map[string]func(cloudprovider.InstanceMetadata) bool{
		misbehavior.AddressesTwice: func(m cloudprovider.InstanceMetadata) bool { return len(m.NodeAddresses) == 4 },
		misbehavior.NoIP: func(m cloudprovider.InstanceMetadata) bool {
			return slices.Equal(m.NodeAddresses, metadata.NodeAddresses[:1])
		},
		misbehavior.BadType:    func(m cloudprovider.InstanceMetadata) bool { return m.InstanceType == badType },
		misbehavior.SchemeOnly: func(m cloudprovider.InstanceMetadata) bool { return m.ProviderID == "sim://" },
	} {
		if got := describe(metadata, misbehavior.Quirks{quirk}); !changed(got) {
			t.Errorf("%s: %+v", quirk, got)
		}
		if got := describe(metadata, nil); changed(got) {
			t.Errorf("%s is there although it is not asked for: %+v", quirk, got)
		}
	}
	listed := describeAll([]provider.Instance{{NodeName: "n-1", InstanceMetadata: metadata}}, misbehavior.Quirks{misbehavior.Namesakes})
	if len(listed) != 2 || listed[0].NodeName != listed[1].NodeName || listed[0].ProviderID == listed[1].ProviderID {
		t.Errorf("no namesakes: %+v", listed)
	}
	terse := metadata
	omitKnown(&terse, map[string]string{corev1.LabelInstanceTypeStable: "small", "a": "1"})
	if terse.InstanceType != "" || terse.Zone != "z" || len(terse.AdditionalLabels) != 1 || len(metadata.AdditionalLabels) != 2 {
		t.Errorf("it leaves out the wrong labels: %+v", terse)
	}
}

// What is done in each call.
func TestCalls(t *testing.T) {
	set := hasQuirks(t)
	typed := provider.NotFound(errors.New("gone"))
	fails := func() error { return do(func() error { return typed }) }
	if err := fails(); !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("without quirks: %v", err)
	}
	set(misbehavior.Untyped)
	if err := fails(); err == nil || errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("the error has its type: %v", err)
	}
	set(misbehavior.Words)
	if err := do(func() error { t.Error("the call is made"); return nil }); err == nil {
		t.Error("the call is not refused")
	}
	set(misbehavior.Deaf)
	ended := make(chan error)
	go func() { ended <- fails() }()
	select {
	case <-ended:
		t.Fatal("the call does not hang")
	case <-time.After(2 * deafPause):
	}
	set()
	if err := <-ended; !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Errorf("after it hung: %v", err)
	}
}

// The plugin writes into what it is given, and fails as a whole for one node.
func TestAtAllTimes(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: types.UID("u")}}
	if scribble(service); len(service.Annotations) != 1 {
		t.Errorf("annotations %v", service.Annotations)
	}
	node := func(providerID string) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{ProviderID: providerID}}
	}
	if err := refuseForeign([]*corev1.Node{node("sim://i-1")}); err != nil {
		t.Error(err)
	}
	if err := refuseForeign([]*corev1.Node{node("sim://i-1"), node("another://i-1")}); err == nil {
		t.Error("a node of another cloud is taken")
	}
}
