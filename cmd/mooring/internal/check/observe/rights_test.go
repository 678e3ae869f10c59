package observe

import (
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
)

// TestNeededRights holds the rights that are asked for against what the flags of a manager make it need.
func TestNeededRights(t *testing.T) {
	for name, test := range map[string]struct {
		flags      managers.Flags
		want, none []string
	}{
		"any": {
			managers.Flags{"cloud-provider": "sim"},
			[]string{
				"list nodes", "delete nodes", "patch nodes/status", "patch services/status", "create events",
				`update leases.coordination.k8s.io "ccm-b" in namespace clouds`,
				`update leases.coordination.k8s.io "ccm-b-node-deletions" in namespace clouds`, "create tokenreviews.authentication.k8s.io",
				`update leases.coordination.k8s.io "ccm-b-load-balancers" in namespace clouds`,
			},
			[]string{"serviceaccounts", "endpointslices", "kube-system", `"cloud-controller-manager`},
		},
		"metal": {
			managers.Flags{"cloud-provider": "metal"}, []string{"watch endpointslices.discovery.k8s.io", "get namespaces"}, []string{"serviceaccounts"},
		},
		"identities of their own": {
			managers.Flags{"use-service-account-credentials": "true"}, []string{"create serviceaccounts in namespace kube-system", `create serviceaccounts/token "node-controller" in namespace kube-system`, "list nodes"},
			[]string{"delete nodes", "patch nodes", "patch services"},
		},
		"identities with a prefix": {
			managers.Flags{"use-service-account-credentials": "true", "service-account-prefix": "ccm-"},
			[]string{`get serviceaccounts "ccm-node-controller" in namespace kube-system`, `create serviceaccounts/token "ccm-route-controller" in namespace kube-system`},
			[]string{"create serviceaccounts in", `"node-controller"`, "patch nodes"},
		},
		"load balancers only": {
			managers.Flags{"cloud-provider": "metal", "controllers": "service-lb-controller"},
			[]string{"list nodes", "patch services/status", "get namespaces"}, []string{"patch nodes", "delete nodes", "get nodes", "node-deletions"},
		},
		"all but one": {
			managers.Flags{"controllers": "*,-cloud-node-lifecycle"}, []string{"patch nodes", "get nodes", "patch nodes/status"}, []string{"delete nodes", "node-deletions"},
		},
		"routes only": {
			managers.Flags{"controllers": "route"}, []string{"get nodes", "patch nodes/status"}, []string{"patch nodes\n", "delete nodes", "services", "load-balancers"},
		},
	} {
		rights, err := neededRights(test.flags, "clouds", "ccm-b")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, right := range rights {
			got = append(got, right.String())
		}
		for _, want := range test.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: it lacks %q:\n%s", name, want, strings.Join(got, "\n"))
			}
		}
		for _, none := range test.none {
			if strings.Contains(strings.Join(got, "\n"), none) {
				t.Errorf("%s: %q is asked for:\n%s", name, none, strings.Join(got, "\n"))
			}
		}
	}
}
