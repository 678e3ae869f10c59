package route

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

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
		"it is annotated as foreign":             {"sim://9", ignore, others},
		"the same, and waits for a provider ID":  {"", func(n *corev1.Node) { ignore(n); taintUninitialized(n) }, others},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("node", "10.120.0.0/24").node
			n.Spec.ProviderID = test.providerID
			if test.change != nil {
				test.change(n)
			}
			if got := membersOf([]corev1.Node{*n}, ownersOf())[0].membership; got != test.want {
				t.Errorf("membership %d, want %d", got, test.want)
			}
		})
	}
}

func taintUninitialized(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
}

func ignore(n *corev1.Node) { n.Annotations = map[string]string{ownership.AnnotationIgnore: "true"} }

func ownersOf(schemes ...string) ownership.Rules {
	return ownership.Rules{ProviderName: "sim", Schemes: schemes}
}
