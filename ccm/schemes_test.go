package ccm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// TestProviderIDSchemes reads the flag as operators write it, on a command line or as one entry of a list in a values file.
func TestProviderIDSchemes(t *testing.T) {
	ownersOf := func(schemes []string) map[string]ownership.Owner {
		rules := ownership.Rules{ProviderName: "sim", Schemes: schemes}
		got := map[string]ownership.Owner{}
		for _, id := range []string{"oci://1", "ocid1.instance.oc1.phx.1", "sim://1"} {
			got[id] = rules.Decide(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}).Owner
		}
		return got
	}
	ours, foreign := ownership.Ours, ownership.Foreign
	for value, want := range map[string][3]ownership.Owner{
		"":       {ours, ours, ours}, // nothing is declared
		"oci":    {ours, foreign, foreign},
		"oci,":   {ours, ours, foreign},
		",oci":   {ours, ours, foreign},
		`oci,""`: {ours, ours, foreign},
		",":      {foreign, ours, foreign},
		`""`:     {foreign, ours, foreign},
	} {
		t.Run(value, func(t *testing.T) {
			o := &options{}
			var sections cliflag.NamedFlagSets
			o.addOwnFlags(&sections)
			if err := sections.FlagSet(ownSection).Parse([]string{"--provider-id-schemes=" + value}); err != nil {
				t.Fatal(err)
			}
			got := ownersOf(o.providerIDSchemes)
			if diff := cmp.Diff(want, [3]ownership.Owner{got["oci://1"], got["ocid1.instance.oc1.phx.1"], got["sim://1"]}); diff != "" {
				t.Errorf("oci://, no scheme, sim:// (-want +got):\n%s", diff)
			}
		})
	}
}
