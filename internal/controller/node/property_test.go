package node

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

var (
	wellKnownKeys = []string{
		corev1.LabelInstanceTypeStable, corev1.LabelInstanceType, corev1.LabelTopologyZone,
		corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion,
	}
	otherKeys = []string{"a", "b", "example.com/rack", "node-role.kubernetes.io/worker"}
	values    = rapid.SampledFrom([]string{"", "1", "2", "x-y"})
	someIP    = rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "fd00::1", "192.0.2.1"})
	someType  = rapid.SampledFrom([]corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName})
)

func drawAddresses(t *rapid.T, label string) []corev1.NodeAddress {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.NodeAddress {
		return corev1.NodeAddress{Type: someType.Draw(t, "type"), Address: someIP.Draw(t, "ip")}
	}), 0, 4).Draw(t, label)
}

func drawMap(t *rapid.T, label string, keys []string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom(keys), values, 0, len(keys)).Draw(t, label)
}

// drawNode draws a node as kubelets, users, other controllers and we ourselves might have left it.
func drawNode(t *rapid.T) *corev1.Node {
	node := newNode()
	node.UID = types.UID(rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "uid"))
	node.Labels = drawMap(t, "labels", slices.Concat(wellKnownKeys, otherKeys))
	node.Annotations = drawMap(t, "annotations", []string{"x", "y~/z"})
	if ip := rapid.SampledFrom([]string{"", "10.0.0.1", "10.0.0.1,fd00::1"}).Draw(t, "nodeIP"); ip != "" {
		withNodeIP(ip)(node)
	}
	someTaint := rapid.SampledFrom([]corev1.Taint{cloudTaint, otherTaint, {Key: "k", Effect: corev1.TaintEffectNoExecute}})
	node.Spec.Taints = rapid.SliceOfN(someTaint, 0, 3).Draw(t, "taints")
	node.Spec.ProviderID = rapid.SampledFrom([]string{"", "sim://1"}).Draw(t, "providerID")
	node.Status.Addresses = drawAddresses(t, "addresses")
	if rapid.Bool().Draw(t, "ready") {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return node
}

func drawMetadata(t *rapid.T) *cloudprovider.InstanceMetadata {
	return &cloudprovider.InstanceMetadata{
		ProviderID:       rapid.SampledFrom([]string{"", "sim://1", "sim://2"}).Draw(t, "cloudID"),
		InstanceType:     values.Draw(t, "type"),
		Zone:             values.Draw(t, "zone"),
		Region:           values.Draw(t, "region"),
		NodeAddresses:    drawAddresses(t, "cloudAddresses"),
		AdditionalLabels: drawMap(t, "cloudLabels", otherKeys),
	}
}

// drawOurs draws who wrote the labels of type, zone and region, as far as it is known.
func drawOurs(t *rapid.T) map[string]bool {
	return rapid.MapOfN(rapid.SampledFrom(wellKnownKeys), rapid.Bool(), 0, len(wellKnownKeys)).Draw(t, "ours")
}

// drawPlan draws a node and the plan for it. With an error of desire, the plan is the one of an initialized node.
func drawPlan(t *rapid.T) (*corev1.Node, *cloudprovider.InstanceMetadata, plan) {
	node, metadata, _, planned := drawPlanOf(t)
	return node, metadata, planned
}

func drawPlanOf(t *rapid.T) (*corev1.Node, *cloudprovider.InstanceMetadata, map[string]bool, plan) {
	node, metadata, ours := drawNode(t), drawMetadata(t), drawOurs(t)
	want, _ := desire(node, metadata)
	return node, metadata, ours, planFor(node, want, ours)
}

func TestPlanningOverTheResultPlansNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, metadata, ours, planned := drawPlanOf(t)
		after, err := patched(node, planned)
		if err != nil {
			t.Fatalf("the plan does not fit its own node: %v", err)
		}
		want, _ := desire(after, metadata)
		if again := planFor(after, want, ours); len(again.writes) > 0 {
			t.Fatalf("planned again: %v", again.changes())
		}
	})
}

func TestPlansAreStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, metadata, ours, planned := drawPlanOf(t)
		for range 5 {
			want, _ := desire(node, metadata)
			if diff := cmp.Diff(planned, planFor(node, want, ours), cmp.AllowUnexported(plan{}, write{})); diff != "" {
				t.Fatalf("the same node and metadata gave another plan (-first +again):\n%s", diff)
			}
		}
	})
}

func TestAddressesComeFirstAndThereAreTwoWritesAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, _, planned := drawPlan(t)
		var targets []target
		for _, write := range planned.writes {
			targets = append(targets, write.target)
		}
		if len(targets) > 2 || len(targets) == 2 && targets[0] != targetAddresses || len(targets) == 2 && targets[1] != targetNode {
			t.Fatalf("writes %v, want the addresses, then the node", targets)
		}
		for _, write := range planned.writes {
			for i, operation := range write.patch {
				if operation.Op == "remove" && len(operation.Path) > 13 && operation.Path[:13] == "/spec/taints/" {
					for _, later := range write.patch[i:] {
						if later.Op == "add" {
							t.Fatalf("%s is added after the taint went", later.Path)
						}
					}
				}
			}
		}
	})
}

func TestNothingForeignIsTouched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, metadata, ours, planned := drawPlanOf(t)
		after, err := patched(node, planned)
		if err != nil {
			t.Fatal(err)
		}
		checkLabels(t, node, after, metadata, ours)
		node.Labels, after.Labels = nil, nil
		if node.Spec.ProviderID == "" {
			if after.Spec.ProviderID != "" && !ownership.Uninitialized(node) {
				t.Fatalf("a node without the taint got the provider ID %q", after.Spec.ProviderID)
			}
			after.Spec.ProviderID = ""
		}
		isCloudTaint := func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintExternalCloudProvider }
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isCloudTaint)
		node.Status.Addresses, after.Status.Addresses = nil, nil
		if diff := cmp.Diff(node, after, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("changed besides what is ours (-before +after):\n%s", diff)
		}
	})
}

// checkLabels holds every label against the rule, in the plainest words.
func checkLabels(t *rapid.T, before, after *corev1.Node, metadata *cloudprovider.InstanceMetadata, ours map[string]bool) {
	waits := ownership.Uninitialized(before)
	for _, key := range otherKeys {
		old, had := before.Labels[key]
		value, has := after.Labels[key]
		fromCloud, said := metadata.AdditionalLabels[key]
		said = said && waits && !kubernetesKey.MatchString(key)
		switch {
		case had && (!has || value != old):
			t.Fatalf("a label %s=%q that was there became %q (there: %t)", key, old, value, has)
		case said && !had && value != fromCloud:
			t.Fatalf("the label %s is %q (there: %t), the cloud says %q", key, value, has, fromCloud)
		case !said && !had && has:
			t.Fatalf("the label %s=%q came from nowhere", key, value)
		}
	}
	for pair, fromCloud := range map[labelPair]string{
		typeLabel: metadata.InstanceType, zoneLabel: metadata.Zone, regionLabel: metadata.Region,
	} {
		wasBeta, hadBeta := before.Labels[pair.beta]
		wasStable, hadStable := before.Labels[pair.stable]
		beta, hasBeta := after.Labels[pair.beta]
		stable, hasStable := after.Labels[pair.stable]
		switch {
		case waits && fromCloud != "":
			if beta != fromCloud || stable != fromCloud {
				t.Fatalf("an initialized node has %q and %q for %s, the cloud says %q", stable, beta, pair.stable, fromCloud)
			}
		case hasBeta != hadBeta || hasStable != (hadStable || hadBeta):
			t.Fatalf("labels of %s came or went", pair.stable)
		case hadBeta && (stable != beta || beta != wasBeta && (beta != fromCloud || !ours[pair.beta])):
			t.Fatalf("%s is %q and its beta label %q after %q, the cloud says %q, and ours are %v", pair.stable, stable, beta, wasBeta, fromCloud, ours)
		case !hadBeta && stable != wasStable && (stable != fromCloud || !ours[pair.stable]):
			t.Fatalf("%s is %q after %q, the cloud says %q, and ours are %v", pair.stable, stable, wasStable, fromCloud, ours)
		case hadBeta && ours[pair.beta] && fromCloud != "" && beta != fromCloud:
			t.Fatalf("%s is ours and stays %q, the cloud says %q", pair.beta, beta, fromCloud)
		}
	}
}

// A concurrent writer loses nothing: a plan either does not fit what the writer made of the node, or leaves what was written.
func TestAConcurrentWriterLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen, _, planned := drawPlan(t)
		met := drawNode(t) // what another writer, or many, made of it
		after, err := patched(met, planned)
		if err != nil {
			return
		}
		if met.UID != seen.UID && len(planned.writes) > 0 {
			t.Fatal("the plan fits another node of the same name")
		}
		for key, value := range met.Labels {
			if seen.Labels[key] != value && after.Labels[key] != value {
				t.Fatalf("the label %s=%q was lost", key, value)
			}
		}
		for key := range seen.Labels {
			if _, there := met.Labels[key]; !there && maps.Equal(seen.Labels, met.Labels) {
				t.Fatalf("the label %s came back", key)
			}
		}
		isCloudTaint := func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintExternalCloudProvider }
		theirs := slices.DeleteFunc(slices.Clone(met.Spec.Taints), isCloudTaint)
		if left := slices.DeleteFunc(slices.Clone(after.Spec.Taints), isCloudTaint); !slices.Equal(theirs, left) {
			t.Fatalf("taints %v, want %v", left, theirs)
		}
		if met.Spec.ProviderID != "" && after.Spec.ProviderID != met.Spec.ProviderID {
			t.Fatalf("the provider ID %q became %q", met.Spec.ProviderID, after.Spec.ProviderID)
		}
	})
}
