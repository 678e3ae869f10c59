package node

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// A node that waits for its initialization gets the additional labels that it lacks. An initialized one gets none.
func TestAdditionalLabelsAreAddedOnce(t *testing.T) {
	waits := withTaints(cloudTaint)
	tests := []struct {
		name  string
		node  *corev1.Node
		cloud map[string]string
		want  *corev1.Node
		kept  []string
	}{
		{"a new one is added", newNode(waits), map[string]string{"a": "1"}, newNode(withLabels("a", "1")), nil},
		{
			"one that is there stays, with another value", newNode(waits, withLabels("a", "9")), map[string]string{"a": "1"},
			newNode(withLabels("a", "9")), []string{"a"},
		},
		{"one that is there stays, with the same value", newNode(waits, withLabels("a", "1")), map[string]string{"a": "1"}, newNode(withLabels("a", "1")), nil},
		{"an empty value is a value", newNode(waits, withLabels("a", "")), map[string]string{"a": "1"}, newNode(withLabels("a", "")), []string{"a"}},
		{
			"keys with the characters of a JSON pointer", newNode(waits, withAnnotation("x/y~z", "kept")),
			map[string]string{"example.com/rack": "1"}, newNode(withAnnotation("x/y~z", "kept"), withLabels("example.com/rack", "1")), nil,
		},
		{"an initialized node gets none", newNode(withLabels("a", "1")), map[string]string{"a": "2", "b": "1"}, newNode(withLabels("a", "1")), nil},
		{"an initialized node loses none", newNode(withLabels("a", "1")), nil, newNode(withLabels("a", "1")), nil},
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

// The labels of an initialized node follow the cloud where a manager of the cloud wrote them.
func TestLabelsFollowTheCloudWhereTheyAreOurs(t *testing.T) {
	stable, beta := corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone
	both := func(value string) edit { return withLabels(stable, value, beta, value) }
	for name, test := range map[string]struct {
		node    edit
		ours    map[string]bool
		want    edit
		unknown []string
	}{
		"as the cloud says":                         {node: both("z"), want: both("z")},
		"ours":                                      {node: both("old"), ours: map[string]bool{beta: true}, want: both("z")},
		"a user's":                                  {node: both("old"), ours: map[string]bool{beta: false, stable: true}, want: both("old")},
		"not known whose":                           {node: both("old"), ours: map[string]bool{stable: true}, want: both("old"), unknown: []string{beta}},
		"absent":                                    {node: withLabels(), ours: map[string]bool{beta: true, stable: true}, want: withLabels()},
		"the stable one alone, ours":                {node: withLabels(stable, "old"), ours: map[string]bool{stable: true}, want: withLabels(stable, "z")},
		"the stable one alone, a user's":            {node: withLabels(stable, "old"), ours: map[string]bool{stable: false}, want: withLabels(stable, "old")},
		"the stable one alone, not known":           {node: withLabels(stable, "old"), want: withLabels(stable, "old"), unknown: []string{stable}},
		"the beta one alone":                        {node: withLabels(beta, "z"), want: both("z")},
		"a stable one that differs from its beta":   {node: withLabels(stable, "mine", beta, "z"), want: both("z")},
		"the same, and the beta one is not cloud's": {node: withLabels(stable, "z", beta, "mine"), ours: map[string]bool{beta: false}, want: both("mine")},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode(test.node)
			want, err := desire(node, &cloudprovider.InstanceMetadata{Zone: "z"})
			if err != nil {
				t.Fatal(err)
			}
			planned := planFor(node, want, test.ours)
			if diff := cmp.Diff(newNode(test.want), mustPatch(t, node, planned), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.unknown, planned.unknown); diff != "" {
				t.Errorf("to be asked about (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatTheCloudDoesNotSayChangesNothing(t *testing.T) {
	node := newNode(withID("sim://1"), allLabels("t", "z", "r"), withAddresses(internalIP("10.0.0.1")),
		withLabels("a", "1"))
	if planned := planFor(node, desired{}, nil); len(planned.writes) > 0 {
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
			{"op":"test","path":"/spec/taints/0","value":
				{"key":"node.cloudprovider.kubernetes.io/uninitialized","value":"true","effect":"NoSchedule"}},
			{"op":"remove","path":"/spec/taints/0","value":null}]`,
	}
	var got []string
	for _, write := range planned.writes {
		encoded, err := json.Marshal(write.patch)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(write.target)+" "+string(encoded))
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

// TestAWriteNeverUndoesWhatCameBetween: when another writer changes the node between our read and our write, the write fails or keeps that change.
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
		{"a foreign label was set", withLabels("other", "9"), true},
		{"all labels went", func(n *corev1.Node) { n.Labels = nil }, false},
		{"annotations came to be", withAnnotation("other", "9"), true},
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
	if planned, err := decide(node, metadata); err != nil || len(planned.writes) > 0 {
		t.Errorf("planned %v, error %v; want nothing", planned.changes(), err)
	}
	metadata.Zone = "y"
	wanted, err := desire(node, metadata)
	planned := planFor(node, wanted, map[string]bool{corev1.LabelFailureDomainBetaZone: true})
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
