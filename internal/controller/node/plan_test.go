package node

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
)

func TestAdditionalLabelsAreMerged(t *testing.T) {
	record := func(json string) edit { return withAnnotation(annotationCloudLabels, json) }
	tests := []struct {
		name  string
		node  *corev1.Node
		cloud map[string]string
		want  *corev1.Node
		kept  []string
	}{
		{
			"a new one is added and recorded", newNode(), map[string]string{"a": "1"},
			newNode(withLabels("a", "1"), record(`{"a":"1"}`)), nil,
		},
		{"ours changes with the cloud", newNode(withLabels("a", "1"), record(`{"a":"1"}`)), map[string]string{"a": "2"},
			newNode(withLabels("a", "2"), record(`{"a":"2"}`)), nil},
		{
			"ours goes with the cloud", newNode(withLabels("a", "1", "b", "1"), record(`{"a":"1","b":"1"}`)),
			map[string]string{"b": "1"},
			newNode(withLabels("b", "1"), record(`{"b":"1"}`)), nil},
		{"the last of ours goes, and the record", newNode(withLabels("a", "1"), record(`{"a":"1"}`)), nil, newNode(), nil},
		{
			"somebody else's stays, with another value", newNode(withLabels("a", "9")), map[string]string{"a": "1"},
			newNode(withLabels("a", "9")), []string{"a"},
		},
		{
			"somebody else's stays theirs, with the same value", newNode(withLabels("a", "1")), map[string]string{"a": "1"},
			newNode(withLabels("a", "1")), nil,
		},
		{"ours that somebody changed is theirs", newNode(withLabels("a", "9"), record(`{"a":"1"}`)), map[string]string{"a": "2"},
			newNode(withLabels("a", "9")), []string{"a"}},
		{
			"ours that somebody changed stays when the cloud's goes", newNode(withLabels("a", "9"), record(`{"a":"1"}`)), nil,
			newNode(withLabels("a", "9")), nil,
		},
		{
			"ours that somebody removed comes back", newNode(record(`{"a":"1"}`)), map[string]string{"a": "1"},
			newNode(withLabels("a", "1"), record(`{"a":"1"}`)), nil,
		},
		{
			"an empty value is a value", newNode(withLabels("a", ""), record(`{"a":""}`)), map[string]string{"a": "1"},
			newNode(withLabels("a", "1"), record(`{"a":"1"}`)), nil,
		},
		{
			"a record that cannot be read is replaced", newNode(withLabels("a", "1"), record(`{`)),
			map[string]string{"a": "2", "b": "1"},
			newNode(withLabels("a", "1", "b", "1"), record(`{"b":"1"}`)), []string{"a"}},
		{"a record does not make Kubernetes' labels ours",
			newNode(withLabels("node-role.kubernetes.io/worker", "x"), record(`{"node-role.kubernetes.io/worker":"x"}`)), nil,
			newNode(withLabels("node-role.kubernetes.io/worker", "x")), nil},
		{
			"keys with the characters of a JSON pointer", newNode(withAnnotation("x/y~z", "kept")),
			map[string]string{"example.com/rack": "1"},
			newNode(withAnnotation("x/y~z", "kept"), withLabels("example.com/rack", "1"), record(`{"example.com/rack":"1"}`)), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			planned, err := decide(test.node, &cloudprovider.InstanceMetadata{AdditionalLabels: test.cloud})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, mustPatch(t, test.node, planned), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.kept, planned.kept); diff != "" {
				t.Errorf("labels of others (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyAListingTakesLabelsAway(t *testing.T) {
	node := newNode(withLabels("rack", "7", "row", "9"), withAnnotation(annotationCloudLabels, `{"rack":"7","row":"8"}`))
	for name, test := range map[string]struct {
		listed int
		cloud  map[string]string
		want   *corev1.Node
	}{
		"a listing that does not name ours": {1, nil, newNode(withLabels("row", "9"))},
		"an answer about one instance that does not name ours": {
			-1, nil, newNode(withLabels("rack", "7", "row", "9"), withAnnotation(annotationCloudLabels, `{"rack":"7"}`)),
		},
		"an answer about one instance that has another value": {
			-1, map[string]string{"rack": "8"},
			newNode(withLabels("rack", "8", "row", "9"), withAnnotation(annotationCloudLabels, `{"rack":"8"}`)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := desireObserved(node, instances.Observation{
				Listed: test.listed, Metadata: cloudprovider.InstanceMetadata{AdditionalLabels: test.cloud},
			})
			if err != nil {
				t.Fatal(err)
			}
			after := mustPatch(t, node, planFor(node, want, restraint{}))
			if diff := cmp.Diff(test.want, after, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatTheCloudDoesNotSayChangesNothing(t *testing.T) {
	node := newNode(withID("sim://1"), allLabels("t", "z", "r"), withAddresses(internalIP("10.0.0.1")),
		withLabels("a", "1"), withAnnotation(annotationCloudLabels, `{"a":"1"}`))
	if planned := planFor(node, desired{}, restraint{}); len(planned.actions) > 0 {
		t.Errorf("planned %v without a word of the cloud", planned.changes())
	}
	withAnnotation(annotationCloudLabels, "{")(node)
	if planned := planFor(node, desired{}, restraint{}); len(planned.actions) > 0 {
		t.Errorf("planned %v without a word of the cloud", planned.changes())
	}
}

// The whole plan of an initialization, as it goes over the wire.
func TestThePatchOfAnInitialization(t *testing.T) {
	node := newNode(withTaints(cloudTaint, otherTaint), withAddresses(internalIP("10.0.0.9")),
		withLabels(corev1.LabelTopologyZone, "old"))
	planned, err := decide(node, &cloudprovider.InstanceMetadata{
		ProviderID: "sim://1", Zone: "z", NodeAddresses: addresses(internalIP("10.0.0.1")), AdditionalLabels: map[string]string{"rack": "7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`addresses [
			{"op":"test","path":"/metadata/uid","value":"uid-0"},
			{"op":"test","path":"/status/addresses","value":[{"type":"InternalIP","address":"10.0.0.9"}]},
			{"op":"add","path":"/status/addresses","value":[{"type":"InternalIP","address":"10.0.0.1"}]}]`,
		`labels and taints [
			{"op":"test","path":"/metadata/uid","value":"uid-0"},
			{"op":"test","path":"/spec/providerID","value":null},
			{"op":"add","path":"/spec/providerID","value":"sim://1"},
			{"op":"test","path":"/metadata/labels/failure-domain.beta.kubernetes.io~1zone","value":null},
			{"op":"add","path":"/metadata/labels/failure-domain.beta.kubernetes.io~1zone","value":"z"},
			{"op":"test","path":"/metadata/labels/rack","value":null},
			{"op":"add","path":"/metadata/labels/rack","value":"7"},
			{"op":"test","path":"/metadata/labels/topology.kubernetes.io~1zone","value":"old"},
			{"op":"add","path":"/metadata/labels/topology.kubernetes.io~1zone","value":"z"},
			{"op":"test","path":"/metadata/annotations","value":null},
			{"op":"add","path":"/metadata/annotations","value":{}},
			{"op":"test","path":"/metadata/annotations/mooring.dev~1cloud-labels","value":null},
			{"op":"add","path":"/metadata/annotations/mooring.dev~1cloud-labels","value":"{\"rack\":\"7\"}"},
			{"op":"test","path":"/spec/taints/0","value":
				{"key":"node.cloudprovider.kubernetes.io/uninitialized","value":"true","effect":"NoSchedule"}},
			{"op":"remove","path":"/spec/taints/0","value":null}]`,
	}
	var got []string
	for _, action := range planned.actions {
		encoded, err := json.Marshal(action.patch)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(action.target)+" "+string(encoded))
	}
	for i := range want {
		want[i] = strings.NewReplacer("\n", "", "\t", "").Replace(want[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
}

func TestEveryTaintOfTheKeyGoes(t *testing.T) {
	noExecute := cloudTaint
	noExecute.Effect = corev1.TaintEffectNoExecute
	node := newNode(withTaints(cloudTaint, otherTaint, noExecute), withID("sim://1"))
	planned, err := decide(node, &cloudprovider.InstanceMetadata{ProviderID: "sim://1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1.Taint{otherTaint}, mustPatch(t, node, planned).Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

// What somebody else does between our look at a node and our write makes the write fail, or is still there after it.
func TestAWriteNeverUndoesWhatCameBetween(t *testing.T) {
	seen := newNode(withTaints(otherTaint, cloudTaint), withAddresses(internalIP("10.0.0.9")), withLabels("theirs", "1"))
	metadata := &cloudprovider.InstanceMetadata{
		ProviderID: "sim://1", Zone: "z", NodeAddresses: addresses(internalIP("10.0.0.1")), AdditionalLabels: map[string]string{"rack": "7"},
	}
	tests := []struct {
		name    string
		between edit
		fits    bool
	}{
		{"nothing", func(*corev1.Node) {}, true},
		{"the node was created anew", func(n *corev1.Node) { n.UID = "uid-1" }, false},
		{
			"a taint was put before ours",
			func(n *corev1.Node) { n.Spec.Taints = append([]corev1.Taint{{Key: "new"}}, n.Spec.Taints...) }, false,
		},
		{"a taint before ours went", func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] }, false},
		{
			"a taint was put after ours",
			func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "new"}) }, true,
		},
		{"the taint went", func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] }, false},
		{"a provider ID was set", withID("sim://2"), false},
		{"a label of ours was set", withLabels("rack", "9"), false},
		{"a label of nobody's was set", withLabels("other", "9"), true},
		{"all labels went", func(n *corev1.Node) { n.Labels = nil }, false},
		{"annotations came to be", withAnnotation("other", "9"), false},
		{"the addresses were set", withAddresses(internalIP("10.0.0.8")), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			planned, err := decide(seen, metadata)
			if err != nil {
				t.Fatal(err)
			}
			met := seen.DeepCopy()
			test.between(met)
			after, err := patched(met, planned)
			if (err == nil) != test.fits {
				t.Fatalf("error %v, want the plan to fit: %t", err, test.fits)
			}
			if err != nil {
				return
			}
			for key, value := range met.Labels {
				if after.Labels[key] != value {
					t.Errorf("the label %s=%s was lost", key, value)
				}
			}
			if len(after.Spec.Taints) != len(met.Spec.Taints)-1 {
				t.Errorf("taints %v, want all but ours of %v", after.Spec.Taints, met.Spec.Taints)
			}
		})
	}
}

func TestNothingIsPlannedForANodeThatIsAsDesired(t *testing.T) {
	metadata := &cloudprovider.InstanceMetadata{
		ProviderID: "sim://1", InstanceType: "t", Zone: "z", Region: "r", NodeAddresses: addresses(internalIP("10.0.0.1")),
	}
	node := newNode(withID("sim://1"), allLabels("t", "z", "r"), withAddresses(internalIP("10.0.0.1"), hostName("h")))
	if planned, err := decide(node, metadata); err != nil || len(planned.actions) > 0 {
		t.Errorf("planned %v, error %v; want nothing", planned.changes(), err)
	}
	metadata.Zone = "y"
	planned, err := decide(node, metadata)
	want := []string{"/metadata/labels/failure-domain.beta.kubernetes.io~1zone", "/metadata/labels/topology.kubernetes.io~1zone"}
	if diff := cmp.Diff(want, planned.changes()); diff != "" || err != nil {
		t.Errorf("error %v; changes (-want +got):\n%s", err, diff)
	}
}

func TestMismatchesAreErrorsOfTheirType(t *testing.T) {
	_, err := decide(newNode(withNodeIP("10.0.0.2")), &cloudprovider.InstanceMetadata{NodeAddresses: addresses(internalIP("10.0.0.1"))})
	var mismatch *nodeIPMismatchError
	if !errors.As(err, &mismatch) || mismatch.provided != "10.0.0.2" || len(mismatch.cloud) != 1 {
		t.Errorf("error %#v, want both address sets in it", err)
	}
}

// An answer with a host name only, as vSphere's and OpenStack's plugins have given, takes no IP from a node that is ready.
func TestAReadyNodeLosesItsIPsByTheSecondAnswerOnly(t *testing.T) {
	ready := func(status corev1.ConditionStatus) edit {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		}
	}
	both := withAddresses(internalIP("10.0.0.1"), hostName("node0"))
	for name, test := range map[string]struct {
		node        *corev1.Node
		said        []corev1.NodeAddress
		again       bool
		unconfirmed bool
		written     bool
	}{
		"a ready node":                   {node: newNode(both, ready("True")), said: addresses(hostName("node0")), unconfirmed: true},
		"a ready node that waits":        {node: newNode(both, ready("True"), withTaints(cloudTaint)), said: addresses(hostName("node0")), unconfirmed: true},
		"a second answer":                {node: newNode(both, ready("True")), said: addresses(hostName("node0")), again: true, written: true},
		"a node that is not ready":       {node: newNode(both, ready("False")), said: addresses(hostName("node0")), written: true},
		"a node that is silent":          {node: newNode(both, ready("Unknown")), said: addresses(hostName("node0")), written: true},
		"another IP":                     {node: newNode(both, ready("True")), said: addresses(internalIP("10.0.0.2")), written: true},
		"an IP of another type":          {node: newNode(both, ready("True")), said: addresses(externalIP("192.0.2.1")), written: true},
		"a node that has no IP":          {node: newNode(withAddresses(hostName("a")), ready("True")), said: addresses(hostName("node0")), written: true},
		"no addresses, which is nothing": {node: newNode(both, ready("True"))},
	} {
		want, err := desire(test.node, &cloudprovider.InstanceMetadata{ProviderID: "sim://1", Zone: "z", NodeAddresses: test.said})
		if err != nil {
			t.Fatal(err)
		}
		planned := planFor(test.node, want, restraint{again: test.again})
		changes := planned.changes()
		if written := slices.Contains(changes, "/status/addresses"); written != test.written || planned.unconfirmed != test.unconfirmed {
			t.Errorf("%s: addresses written %t, unconfirmed %t", name, written, planned.unconfirmed)
		}
		if !slices.Contains(changes, "/metadata/labels/topology.kubernetes.io~1zone") {
			t.Errorf("%s: the zone is held back: %v", name, changes)
		}
	}
}
