package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// proving is a reconciler of a provider that declares no schemes.
func proving() *reconciler {
	return newReconciler(Options{Owners: ownership.Rules{ProviderName: "oci"}})
}

func found(providerID string) instances.Observation {
	return instances.Observation{
		Status: instances.Found, Answered: providerID, Listed: -1, Metadata: cloudprovider.InstanceMetadata{ProviderID: providerID},
	}
}

// The initialization of a node in doubt records the proof, in the patch that takes the taint away. Others carry no record.
func TestInitializationRecordsTheProof(t *testing.T) {
	for name, test := range map[string]struct {
		node     *corev1.Node
		answered string
		want     string
	}{
		"gets a bare ID":                {newNode(withTaints(cloudTaint)), "ocid1.a", `{"provider":"oci","providerID":"ocid1.a"}`},
		"has a bare ID":                 {newNode(withTaints(cloudTaint), withID("ocid1.a")), "ocid1.a", `{"provider":"oci","providerID":"ocid1.a"}`},
		"carries another node's record": {newNode(withTaints(cloudTaint), withAnnotation(ownership.AnnotationProven, `{"provider":"oci","providerID":"ocid1.b"}`)), "ocid1.a", `{"provider":"oci","providerID":"ocid1.a"}`},
		"gets an ID of another scheme":  {newNode(withTaints(cloudTaint)), "vm://a", `{"provider":"oci","providerID":"vm://a"}`},
		"gets an ID of the provider's":  {newNode(withTaints(cloudTaint)), "oci://a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen := found(test.answered)
			want, err := desireFor(test.node, &seen.Metadata, seen.Answered, true, proving().owners)
			if err != nil {
				t.Fatal(err)
			}
			planned := planFor(test.node, want, nil)
			if len(planned.writes) != 1 {
				t.Errorf("%d writes, want one", len(planned.writes))
			}
			after := mustPatch(t, test.node, planned)
			if got := after.Annotations[ownership.AnnotationProven]; got != test.want || ownership.Uninitialized(after) {
				t.Errorf("the record is %q, want %q; the taint is there: %t", got, test.want, ownership.Uninitialized(after))
			}
			if got := (ownership.Rules{ProviderName: "oci"}).Decide(after); got.Owner != ownership.Ours {
				t.Errorf("for the next leader the node is %s: %s", got.Owner, got.Reason())
			}
		})
	}
}

// A refresh that proves a node which others have initialized records that once. An instance that is gone takes no record away.
func TestARefreshRecordsTheProofOnce(t *testing.T) {
	node, r := newNode(withID("ocid1.a"), withAnnotation("x", "y")), proving()
	planned, _, err := r.planRefresh(node, r.owners.Decide(node), found("ocid1.a"), nil)
	if err != nil || len(planned.writes) != 1 {
		t.Fatalf("%d writes, error %v; want one write", len(planned.writes), err)
	}
	after := mustPatch(t, node, planned)
	if want := `{"provider":"oci","providerID":"ocid1.a"}`; after.Annotations[ownership.AnnotationProven] != want || after.Annotations["x"] != "y" {
		t.Errorf("the annotations are %v, want the record %s beside what was there", after.Annotations, want)
	}
	for name, said := range map[string]instances.Observation{
		"found again": found("ocid1.a"), "gone": {Status: instances.NotFound}, "no statement": {}, "found without an ID": found(""),
	} {
		next := proving() // another leader
		planned, _, err := next.planRefresh(after, next.owners.Decide(after), said, nil)
		if err != nil || len(planned.writes) > 0 {
			t.Errorf("%s: writes %q, error %v; want no write", name, planned.changes(), err)
		}
	}
	bystander := newNode(withID("ocid1.b"))
	if planned, _, _ := r.planRefresh(bystander, r.owners.Decide(bystander), instances.Observation{Status: instances.NotFound}, nil); len(planned.writes) > 0 {
		t.Errorf("a node that the cloud does not know: writes %q, want none", planned.changes())
	}
}
