package route

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// denying is a cloud that knows one instance.
type denying struct {
	cloudprovider.Interface
	cloudprovider.InstancesV2
}

func (denying) ProviderName() string { return "sim" }

func (d denying) InstancesV2() (cloudprovider.InstancesV2, bool) { return d, true }

func (denying) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	if node.Name != "there" {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID}, nil
}

func TestWhoseNodesAre(t *testing.T) {
	for name, test := range map[string]struct {
		providerID string
		change     func(*corev1.Node)
		want       membership
	}{
		"it has a provider ID":                   {"sim://1", nil, ours},
		"another scheme":                         {"aws:///z/i-1", nil, ours},
		"no scheme":                              {"i-1", nil, ours},
		"no provider ID":                         {"", nil, presumed},
		"no provider ID, and it was initialized": {"", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "a"} }, presumed},
		"no pod CIDR":                            {"i-3", func(n *corev1.Node) { n.Spec.PodCIDRs = nil }, ours},
		"it waits for its initialization":        {"", taintUninitialized, undecided},
		"the taint came back":                    {"sim://2", taintUninitialized, ours},
		"it is annotated as somebody else's":     {"sim://9", ignore, others},
		"the same, and waits for a provider ID":  {"", func(n *corev1.Node) { ignore(n); taintUninitialized(n) }, others},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("node", "10.120.0.0/24").node
			n.Spec.ProviderID = test.providerID
			if test.change != nil {
				test.change(n)
			}
			if got := membersOf([]corev1.Node{*n}, ownersOf(denying{}))[0].membership; got != test.want {
				t.Errorf("membership %d, want %d", got, test.want)
			}
		})
	}
}

func taintUninitialized(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
}

func ignore(n *corev1.Node) { n.Annotations = map[string]string{ownership.AnnotationIgnore: "true"} }

func ownersOf(cloud cloudprovider.Interface, schemes ...string) *instances.Owners {
	return instances.NewOwners(instances.New(instances.Options{Cloud: cloud}), ownership.Rules{ProviderName: "sim", Schemes: schemes})
}

// A node whose kubelet is silent and whose instance the cloud denies is about to be deleted: its routes stay, and no other is made.
func TestNoRouteForANodeWhoseInstanceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inventory := instances.New(instances.Options{Cloud: denying{}})
		owners := instances.NewOwners(inventory, ownership.Rules{ProviderName: "sim"})
		ready := func(name string, status corev1.ConditionStatus) *corev1.Node {
			n := node(name, "10.120.0.0/24").node
			n.Spec.ProviderID = "sim://" + name
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
			return n
		}
		expect := func(want membership, n *corev1.Node) {
			t.Helper()
			if got := membersOf([]corev1.Node{*n}, owners)[0].membership; got != want {
				t.Errorf("node %s, ready %s: membership %d, want %d", n.Name, n.Status.Conditions[0].Status, got, want)
			}
		}
		there, gone, reports := ready("there", corev1.ConditionUnknown), ready("gone", corev1.ConditionUnknown), ready("reports", corev1.ConditionFalse)
		expect(ours, gone) // nothing was asked yet
		for _, n := range []*corev1.Node{there, gone, reports} {
			_, err := inventory.Lookup(t.Context(), n, 0)
			if err != nil {
				t.Fatal(err)
			}
		}
		expect(ours, there)
		expect(undecided, gone)
		expect(ours, reports)
		time.Sleep(denialAge + time.Second)
		expect(ours, gone) // the answer is too old
	})
}
